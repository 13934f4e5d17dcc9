#include "graph/onnx/repeated_names.h"

#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

class Names {
 public:
  void add_input(const std::string& name) {
    if (!inputs_.insert(name).second) say(cat("two inputs have the name `", name, "`"));
  }
  // Some exporters write a constant twice.
  void add_constant(const proto::TensorProto& tensor) {
    auto [first, is_new] = constants_.try_emplace(tensor.name(), &tensor);
    if (!is_new && first->second->SerializeAsString() != tensor.SerializeAsString())
      say(cat("two constants have the name `", tensor.name(), "`"));
  }

  void add_outputs(const proto::NodeProto& node) {
    for (const std::string& name : node.output()) {
      if (name.empty()) continue;  // left out
      bool is_input = inputs_.contains(name);
      if (is_input || constants_.contains(name))
        say(cat(describe(node), " makes `", name, "`, which is the name of ", is_input ? "an input" : "a constant"));
      auto [maker, is_new] = makers_.try_emplace(name, &node);
      if (!is_new) say(cat(describe(*maker->second), " and ", describe(node), " both make `", name, "`"));
    }
  }

  std::vector<std::string> take() { return std::move(lines_); }

 private:
  static constexpr std::size_t kMostLines = 50;
  void say(std::string line) {
    if (lines_.size() < kMostLines) lines_.push_back(std::move(line));
  }

  std::unordered_set<std::string_view> inputs_;
  std::unordered_map<std::string_view, const proto::TensorProto*> constants_;
  std::unordered_map<std::string_view, const proto::NodeProto*> makers_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> repeated_names(const proto::GraphProto& graph) {
  Names names;
  for (const proto::ValueInfoProto& input : graph.input()) names.add_input(input.name());
  for (const proto::TensorProto& tensor : graph.initializer()) names.add_constant(tensor);
  for (const proto::NodeProto& node : graph.node()) names.add_outputs(node);
  return names.take();
}

std::vector<std::string> repeated_names(const proto::FunctionProto& function) {
  Names names;
  for (const std::string& input : function.input()) names.add_input(input);
  for (const proto::NodeProto& node : function.node()) names.add_outputs(node);
  return names.take();
}

}  // namespace tw::graph::onnx
