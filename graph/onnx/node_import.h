// One node of an ONNX file while it becomes operators of a graph: its attributes and inputs, and what is made of them.
// After the first problem nothing more is added, so that converters need not ask.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/import_onnx.h"
#include "graph/onnx/proto.h"

namespace tw::graph::onnx {

constexpr const char* kNoElements = "tensors without elements are not supported here";

// "node `name` (Operator)", for messages. A node without a name has that of its first output.
std::string describe(const proto::NodeProto& node);

class NodeImport {
 public:
  // `model`: the path of the file; `values`: what its names stand for, so far.
  NodeImport(const proto::NodeProto& node, i64 opset, const std::string& model, GraphBuilder& builder,
             std::map<std::string, ValueId>& values);

  const std::string& op() const { return node_.op_type(); }
  i64 opset() const { return opset_; }
  const std::string& problem() const { return problem_; }
  bool has_failed() const { return !problem_.empty(); }
  void fail(const std::string& why);

  // ---- attributes, or what is said where there is none
  bool has(const char* attribute) const { return find(attribute) != nullptr; }
  i64 integer(const char* attribute, i64 otherwise) const;
  double real(const char* attribute, double otherwise) const;
  std::string text(const char* attribute, const std::string& otherwise) const;
  std::vector<i64> integers(const char* attribute, std::vector<i64> otherwise = {}) const;
  const proto::AttributeProto* find(const char* attribute) const;
  // The array that an attribute holds. Nothing, after a problem, if it cannot be read.
  std::optional<HostArray> array(const proto::AttributeProto& attribute);
  // These change nothing here.
  void ignore(std::initializer_list<const char*> attributes) { asked_.insert(attributes.begin(), attributes.end()); }
  // An attribute that nobody asked for; "" if there is none.
  std::string ignored_attribute() const;

  // ---- inputs
  std::size_t inputs() const { return static_cast<std::size_t>(node_.input_size()); }
  std::size_t outputs() const { return static_cast<std::size_t>(node_.output_size()); }
  bool has_input(std::size_t index) const;
  bool has_output(std::size_t index) const;
  ValueId input(std::size_t index);
  // A copy: what is made next may move all types.
  std::vector<i64> shape(ValueId value) const { return builder_.type(value).shape; }
  // 1 where there is no such dimension.
  i64 extent(ValueId value, i64 axis) const;
  i64 rank(ValueId value) const { return static_cast<i64>(builder_.type(value).shape.size()); }
  DType dtype(ValueId value) const { return builder_.type(value).dtype; }
  // What an input that is constant holds; a problem if it is not.
  std::vector<double> known_numbers(std::size_t index);
  std::vector<i64> known_integers(std::size_t index);
  // An attribute up to an opset, an input from then on; `otherwise` if it is left out.
  std::vector<i64> integers_of(const char* attribute, std::size_t index, std::vector<i64> otherwise = {});

  // ---- what is made
  GraphBuilder& builder() { return builder_; }
  // The name that what is made gets.
  const std::string& result_name() const { return node_.output_size() > 0 ? node_.output(0) : node_.name(); }
  ValueId add(const std::string& op, WorkloadArguments arguments, const std::vector<ValueId>& inputs);
  std::vector<ValueId> add_several(const std::string& op, WorkloadArguments arguments,
                                   const std::vector<ValueId>& inputs);
  ValueId constant(HostArray data);
  // A tensor without elements. Only what brings elements to other places takes one; others refuse it.
  bool is_empty(ValueId value) const { return std::ranges::count(builder_.type(value).shape, 0) > 0; }
  ValueId nothing(const std::vector<i64>& shape, DType dtype) { return constant(HostArray::zeros(dtype, shape)); }
  const HostArray* data(ValueId value) const { return builder_.data(value); }
  // A number as a tensor of the shape and type of another one.
  ValueId number(double value, ValueId like) { return broadcast(scalar(value, dtype(like)), shape(like)); }
  ValueId scalar(double value, DType dtype);
  ValueId broadcast(ValueId value, const std::vector<i64>& shape);
  ValueId reshape(ValueId value, const std::vector<i64>& shape);
  ValueId transpose(ValueId value, const std::vector<i64>& order);
  ValueId cast(ValueId value, DType to);
  void result(std::size_t index, ValueId value);

  // A dimension that may count from the end.
  i64 axis(i64 given, i64 rank);
  // A problem where `index` is constant and has an element outside of the shape. Elements belong to these dimensions in
  // turn.
  void check_indices(ValueId index, const std::vector<i64>& shape, const std::vector<i64>& dimensions);

 private:
  const proto::NodeProto& node_;
  i64 opset_;
  const std::string& model_;
  GraphBuilder& builder_;
  std::map<std::string, ValueId>& values_;
  std::string problem_;
  mutable std::set<std::string> asked_;  // attributes
};

// The largest number of an integer type.
double highest_of(DType dtype);

// The shape to which all broadcast, if they do.
std::vector<i64> common_shape(const std::vector<std::vector<i64>>& shapes);

using Converter = std::function<void(NodeImport&)>;
using Converters = std::map<std::string, Converter>;
// By subject, one file each.
void add_elementwise(Converters& table);
void add_shapes(Converters& table);
void add_reductions(Converters& table);
void add_windows(Converters& table);
void add_products(Converters& table);
void add_losses(Converters& table);
void add_quantized(Converters& table);
void add_resizing(Converters& table);
void add_recurrent(Converters& table);
void add_attention(Converters& table);
void add_places(Converters& table);
void add_trigonometry(Converters& table);
void add_boxes(Converters& table);
const Converters& converters();
// The converter of the operator of that domain and name in one of the modules; empty if there is none.
Converter own_converter(const std::vector<const RewriteModule*>& modules, const std::string& domain,
                        const std::string& name);
// Operators that are known and not supported, and why (refused.cc).
using Refusals = std::map<std::string, std::string>;
const Refusals& refusals();

// ---- what several of them make
// By the attributes of Conv, without a bias.
ValueId convolution(NodeImport& node, ValueId x, ValueId weights);
// R elements of X; one along `axis`; one behind the other. All of these may have none.
ValueId sliced(NodeImport& node, ValueId x, const std::vector<i64>& start, const std::vector<i64>& step,
               const std::vector<i64>& shape);
ValueId part(NodeImport& node, ValueId x, i64 axis, i64 start, i64 extent);
ValueId concatenated(NodeImport& node, ValueId a, ValueId b, i64 axis);
// The elements of X at `index` along one dimension; as GatherElements. Constant indices are checked.
ValueId gathered(NodeImport& node, ValueId x, ValueId index, i64 axis);
ValueId gathered_elements(NodeImport& node, ValueId x, ValueId index, i64 axis);
// As MatMul: vectors are matrices, batches are broadcast. With one right matrix for all rows the rows are joined.
ValueId product(NodeImport& node, ValueId a, ValueId b);

// ---- data of the file (tensors.cc)
std::optional<DType> dtype_of(int onnx_type);
// "FLOAT16", or "number 99" where this libonnx knows no type of that number; for messages.
std::string type_name(int onnx_type);
// Nothing, and why in `problem`. `model`: the path of the file, beside which external data lies; "" = there is none.
std::optional<HostArray> array_of(const proto::TensorProto& tensor, const std::string& model, std::string& problem);

}  // namespace tw::graph::onnx
