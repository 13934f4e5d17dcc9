// A file as a graph, node after node.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <utility>

#include "dsl/base/text.h"
#include "dsl/ir/limits.h"
#include "graph/onnx/function_body.h"
#include "graph/onnx/node_import.h"
#include "graph/onnx/plugin.h"
#include "graph/onnx/repeated_names.h"
#include "graph/onnx/value_types.h"
#include "graph/own_operator.h"

namespace tw::graph::onnx {
namespace {

constexpr i64 kOldestOpset = 1, kNewestOpset = 24;
constexpr std::size_t kMostProblems = 50;
constexpr i64 kMostNodes = 100'000;              // with those of functions and branches, wherever they stand
constexpr std::size_t kMostMadeNodes = 300'000;  // operators of the graph
constexpr std::size_t kMostMadeData = std::size_t{256} << 20;  // bytes of constants that no file holds

class ModelImport {
 public:
  ModelImport(const proto::ModelProto& model, std::string path, const ImportOptions& options)
      : model_(model), path_(std::move(path)), options_(options), builder_(model.graph().name()) {}

  std::variant<Graph, ImportProblems> run() {
    opset();
    if (problems_.empty()) names();
    if (problems_.empty()) graph();
    if (!problems_.empty()) return ImportProblems{std::move(problems_)};
    return builder_.finish();
  }

 private:
  void problem(std::string line) {
    if (problems_.size() < kMostProblems) problems_.push_back(std::move(line));
  }

  // What the list says of ONNX's own operators; `otherwise` if it says nothing.
  static i64 version_of(const google::protobuf::RepeatedPtrField<proto::OperatorSetIdProto>& list, i64 otherwise) {
    for (const proto::OperatorSetIdProto& set : list) {
      if (domain_or_onnx(set.domain()) == kOnnxDomain) otherwise = set.version();
    }
    return otherwise;
  }

  static std::string why_not_opset(i64 opset) {
    if (opset >= kOldestOpset && opset <= kNewestOpset) return "";
    return cat("its opset is ", opset, "; ", kOldestOpset, " to ", kNewestOpset, " are known");
  }

  void opset() {
    opset_ = version_of(model_.opset_import(), 0);
    if (std::string why = why_not_opset(opset_); !why.empty()) problem(why);
  }

  // All of it, so that an open dimension hides no operator that is not supported.
  void graph() {
    data(model_.graph());
    inputs();
    nodes(model_.graph().node());
    outputs();
  }

  // For messages.
  std::string described(const proto::NodeProto& node) const { return cat(describe(node), place_); }

  void names() {
    for (std::string& line : hidden_functions(model_)) problem(std::move(line));
    for (std::string& line : repeated_names(model_.graph())) problem(std::move(line));
    for (const proto::FunctionProto& function : model_.functions()) {
      for (const std::string& line : repeated_names(function)) problem(cat("function `", function.name(), "`: ", line));
    }
  }

  void data(const proto::GraphProto& graph) {
    for (const proto::TensorProto& tensor : graph.initializer()) {
      std::string why;
      std::optional<HostArray> array = array_of(tensor, path_, why);
      if (array)
        counted_ = values_[tensor.name()] = builder_.constant(tensor.name(), std::move(*array));
      else
        problem(cat("constant `", tensor.name(), "`: ", why));
    }
  }

  void inputs() {
    const InputShapes shapes(model_.graph(), options_.shapes);
    for (const proto::ValueInfoProto& input : model_.graph().input()) {
      auto known = options_.constants.find(input.name());
      if (known != options_.constants.end())
        counted_ = values_[input.name()] = builder_.constant(input.name(), known->second);
      if (values_.count(input.name())) continue;  // one that has data
      int type = input.type().tensor_type().elem_type();
      std::optional<DType> dtype = dtype_of(type);
      std::string why;
      std::optional<std::vector<i64>> shape = shapes.of(input, why);
      if (!input.type().has_tensor_type())
        problem(cat("input `", input.name(), "` is no tensor"));
      else if (!dtype)
        problem(cat("input `", input.name(), "` has elements of type ", type_name(type), ", which is not supported"));
      else if (!shape)
        problem(why);
      else if (!is_possible(*shape))
        problem(cat("input `", input.name(), "` has too many elements: ", join(*shape, " x "), " are more than ",
                    kMostModelElements));
      else
        values_[input.name()] = builder_.input(input.name(), {*dtype, *shape});
    }
  }

  // Goes on after a problem, so that all are said at once; what depends on it says nothing.
  void nodes(const google::protobuf::RepeatedPtrField<proto::NodeProto>& list) {
    constexpr int kDeepest = 64;  // functions and branches inside one another
    if (++depth_ > kDeepest)
      problem(cat("functions and branches are nested deeper than ", kDeepest));
    else
      for (const proto::NodeProto& node : list) import(node);
    --depth_;
  }

  void import(const proto::NodeProto& node) {
    if (is_too_large_) return;
    if (++nodes_ > kMostNodes) {
      is_too_large_ = true;
      return problem(cat("it has more than ", kMostNodes, " nodes, with those of functions and branches"));
    }
    if (builder_.node_count() > kMostMadeNodes) {
      is_too_large_ = true;
      return problem(cat("its nodes become more than ", kMostMadeNodes, " operators"));
    }
    auto unknown = std::ranges::find_if(node.input(),
                                        [&](const std::string& name) { return !name.empty() && !values_.count(name); });
    bool is_known = unknown == node.input().end();
    const proto::FunctionProto* function = called_function(model_, node);
    const Converter own = own_converter(options_.modules, node.domain(), node.op_type());
    auto converter = converters().find(node.op_type());
    bool is_own = domain_or_onnx(node.domain()) == kOnnxDomain, is_branch = is_own && node.op_type() == "If";
    if (!function && !own && !is_own)
      problem(cat(described(node), ": operators of `", node.domain(), "` are not supported"));
    else if (!function && !own && !is_branch && converter == converters().end())
      refuse(node);
    else if (!is_known && problems_.empty())
      problem(cat(described(node), ": nothing makes its input `", *unknown, "`"));
    else if (function)
      call(node, *function);
    else if (is_known && is_branch)
      branch(node);
    else if (is_known)
      convert(node, own ? own : converter->second);
  }

  void refuse(const proto::NodeProto& node) {
    auto reason = refusals().find(node.op_type());
    std::string why = reason == refusals().end() ? "" : cat(": ", reason->second);
    problem(cat(described(node), ": this operator is not supported", why));
  }

  // The nodes of a function in place of its call; they see its operands and attributes only. Operands may be unknown
  // after a problem.
  void call(const proto::NodeProto& node, const proto::FunctionProto& function) {
    i64 own = version_of(function.opset_import(), opset_);
    if (std::string why = why_not_opset(own); !why.empty())
      return problem(cat(described(node), ": its function: ", why));
    std::map<std::string, ValueId> outside = std::exchange(values_, {});
    i64 opset = std::exchange(opset_, own);
    std::string place = std::exchange(place_, cat(" of function `", function.name(), "`"));
    for (int i = 0; i < std::min(function.input_size(), node.input_size()); ++i) {
      auto given = outside.find(node.input(i));
      if (given != outside.end()) values_[function.input(i)] = given->second;
    }
    nodes(function_body(function, node));
    for (int i = 0; i < std::min(function.output_size(), node.output_size()); ++i) {
      auto made = values_.find(function.output(i));
      if (made != values_.end()) outside[node.output(i)] = made->second;
    }
    values_ = std::move(outside);
    opset_ = opset;
    place_ = std::move(place);
  }

  // `If` with a condition that is known: its branch in its place.
  void branch(const proto::NodeProto& node) {
    NodeImport choice(node, opset_, path_, builder_, values_);
    std::vector<i64> condition = choice.known_integers(0);
    const proto::AttributeProto* chosen =
        condition.size() == 1 ? choice.find(condition[0] ? "then_branch" : "else_branch") : nullptr;
    if (!chosen) return problem(cat(described(node), ": its condition is no constant"));
    for (const std::string& line : repeated_names(chosen->g())) problem(cat(described(node), ": in its branch ", line));
    data(chosen->g());
    nodes(chosen->g().node());
    for (int i = 0; i < std::min(node.output_size(), chosen->g().output_size()); ++i) {
      auto made = values_.find(chosen->g().output(i).name());
      if (made != values_.end()) values_[node.output(i)] = made->second;
    }
  }

  // What nothing depends on at inference, and what the first opsets said about memory.
  static bool is_for_training_only(const std::string& attribute) {
    return attribute == "momentum" || attribute == "seed" || attribute == "consumed_inputs" || attribute == "ratio" ||
           attribute == "is_test";
  }

  void convert(const proto::NodeProto& node, const Converter& converter) {
    NodeImport made(node, opset_, path_, builder_, values_);
    converter(made);
    std::string ignored = made.ignored_attribute();
    if (!made.has_failed() && !ignored.empty() && !is_for_training_only(ignored))
      made.fail(cat("its attribute `", ignored, "` is not known"));
    if (made.has_failed()) problem(cat(described(node), ": ", made.problem()));
    if (node.op_type() == "NonMaxSuppression" && node.output_size() > 0 && values_.count(node.output(0)) > 0)
      selections_.insert(values_[node.output(0)]);
    count_data(node);
  }

  // What operators make of nothing: a small file may ask for more than any memory has.
  void count_data(const proto::NodeProto& node) {
    for (const std::string& output : node.output()) {
      auto found = values_.find(output);
      for (ValueId last = found == values_.end() ? 0 : found->second; counted_ < last;) {
        const HostArray* data = builder_.data(++counted_);
        if (data && node.op_type() != "Constant") made_data_ += data->bytes.size();
        const std::vector<i64>& shape = builder_.type(counted_).shape;
        if (!data && !is_possible(shape)) return too_large(node, shape);
      }
    }
    if (made_data_ <= kMostMadeData) return;
    is_too_large_ = true;
    problem(cat(described(node), ": its data, with that of nodes before it, would take more than ", kMostMadeData >> 20,
                " MiB"));
  }

  void too_large(const proto::NodeProto& node, const std::vector<i64>& shape) {
    is_too_large_ = true;
    problem(cat(described(node), ": it makes a tensor of ", join(shape, " x "), " elements, which are more than ",
                kMostModelElements));
  }

  void outputs() {
    if (model_.graph().output().empty()) problem("it has no outputs, so there is nothing to compute");
    bool is_complete = problems_.empty();
    for (const proto::ValueInfoProto& output : model_.graph().output()) {
      auto found = values_.find(output.name());
      if (found == values_.end() && is_complete)
        problem(cat("nothing makes the output `", output.name(), "`"));
      else if (found == values_.end())
        continue;
      else if (std::string why =
                   contradiction_of_output(output, builder_.type(found->second), selections_.count(found->second) > 0);
               !why.empty())
        problem(why);
      else
        builder_.output(found->second, output.name());
    }
  }

  const proto::ModelProto& model_;
  std::string path_;
  const ImportOptions& options_;
  GraphBuilder builder_;
  i64 opset_ = 0;
  std::string place_;  // of the nodes that are imported, behind their description: "" or a function
  int depth_ = 0;
  i64 nodes_ = 0;
  std::size_t made_data_ = 0;  // bytes
  ValueId counted_ = 0;        // the last value whose data is counted
  bool is_too_large_ = false;  // nothing more is imported
  std::map<std::string, ValueId> values_;
  std::set<ValueId> selections_;  // results of NonMaxSuppression: files may declare fewer rows
  std::vector<std::string> problems_;
};

// False if the file cannot be read or is not of that kind.
template <class Message>
bool parse(const std::string& path, Message& message) {
  std::ifstream file(path, std::ios::binary);
  return file && message.ParseFromIstream(&file);
}

// Of a file that was not parsed.
std::string why_not_parsed(const std::string& path, const std::string& what_it_is_not) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file) std::fgetc(file.get());  // a folder opens, and cannot be read
  bool is_read = file && std::ferror(file.get()) == 0;
  return cat("`", path, "` ", is_read ? what_it_is_not : cat("cannot be read: ", std::strerror(errno)));
}

std::variant<Graph, ImportProblems> import(const std::string& path, const ImportOptions& options) {
  proto::ModelProto model;
  if (!parse(path, model) || !model.has_graph())
    return ImportProblems{{why_not_parsed(path, "is no ONNX file or is damaged")}};
  return ModelImport(model, path, options).run();
}

std::variant<HostArray, std::string> read_tensor(const std::string& path) {
  proto::TensorProto tensor;
  if (!parse(path, tensor)) return why_not_parsed(path, "is damaged");
  std::string problem;
  std::optional<HostArray> array = array_of(tensor, path, problem);
  if (array) return std::move(*array);
  return problem;
}

std::vector<std::string> input_names(const std::string& path) {
  proto::ModelProto model;
  std::vector<std::string> names;
  if (!parse(path, model)) return names;
  for (const proto::ValueInfoProto& input : model.graph().input()) {
    bool has_data = std::ranges::any_of(model.graph().initializer(),
                                        [&](const proto::TensorProto& data) { return data.name() == input.name(); });
    if (!has_data) names.push_back(input.name());
  }
  return names;
}

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const auto& [name, converter] : converters()) names.push_back(name);
  names.push_back("If");
  std::ranges::sort(names);
  return names;
}

}  // namespace
}  // namespace tw::graph::onnx

extern "C" __attribute__((visibility("default"))) const tw::graph::onnx::Plugin* tw_onnx_plugin() {
  using namespace tw::graph::onnx;
  static const Plugin plugin{import, input_names, operator_names, read_tensor};
  return &plugin;
}
