#include "graph/onnx/node_import.h"

#include <algorithm>
#include <cstring>

#include "dsl/base/text.h"

namespace tw::graph::onnx {
namespace {

// An element of an array of integers. Not all of them are doubles.
i64 integer_at(const HostArray& array, i64 at) {
  if (array.dtype != DType::I64) return static_cast<i64>(array.get(at));
  i64 out = 0;
  std::memcpy(&out, array.bytes.data() + 8 * at, 8);
  return out;
}

}  // namespace

std::string describe(const proto::NodeProto& node) {
  std::string name = !node.name().empty() ? node.name() : node.output_size() > 0 ? node.output(0) : "";
  return cat("node `", name, "` (", node.op_type(), ")");
}

NodeImport::NodeImport(const proto::NodeProto& node, i64 opset, const std::string& model, GraphBuilder& builder,
                       std::map<std::string, ValueId>& values)
    : node_(node), opset_(opset), model_(model), builder_(builder), values_(values) {}

void NodeImport::fail(const std::string& why) {
  if (problem_.empty()) problem_ = why;
}

const proto::AttributeProto* NodeImport::find(const char* attribute) const {
  asked_.insert(attribute);
  for (const proto::AttributeProto& found : node_.attribute()) {
    if (found.name() == attribute) return &found;
  }
  return nullptr;
}

std::string NodeImport::ignored_attribute() const {
  for (const proto::AttributeProto& found : node_.attribute()) {
    if (!asked_.count(found.name())) return found.name();
  }
  return "";
}

i64 NodeImport::integer(const char* attribute, i64 otherwise) const {
  const proto::AttributeProto* found = find(attribute);
  return found ? found->i() : otherwise;
}

double NodeImport::real(const char* attribute, double otherwise) const {
  const proto::AttributeProto* found = find(attribute);
  return found ? found->f() : otherwise;
}

std::string NodeImport::text(const char* attribute, const std::string& otherwise) const {
  const proto::AttributeProto* found = find(attribute);
  return found ? found->s() : otherwise;
}

std::vector<i64> NodeImport::integers(const char* attribute, std::vector<i64> otherwise) const {
  const proto::AttributeProto* found = find(attribute);
  return found ? std::vector<i64>(found->ints().begin(), found->ints().end()) : otherwise;
}

std::optional<HostArray> NodeImport::array(const proto::AttributeProto& attribute) {
  std::string problem;
  std::optional<HostArray> data = array_of(attribute.t(), model_, problem);
  if (!data) fail(problem);
  return data;
}

bool NodeImport::has_input(std::size_t index) const {
  return index < inputs() && !node_.input(static_cast<int>(index)).empty();
}

bool NodeImport::has_output(std::size_t index) const {
  return index < outputs() && !node_.output(static_cast<int>(index)).empty();
}

ValueId NodeImport::input(std::size_t index) {
  if (!has_input(index)) return fail(cat("input ", index, " is missing")), scalar(0, DType::F32);
  const std::string& name = node_.input(static_cast<int>(index));
  auto found = values_.find(name);
  if (found == values_.end()) return fail(cat("nothing makes `", name, "`")), scalar(0, DType::F32);
  return found->second;
}

i64 NodeImport::extent(ValueId value, i64 axis) const {
  const std::vector<i64>& shape = builder_.type(value).shape;
  return axis >= 0 && axis < static_cast<i64>(shape.size()) ? shape[static_cast<std::size_t>(axis)] : 1;
}

std::vector<double> NodeImport::known_numbers(std::size_t index) {
  const HostArray* found = data(input(index));
  if (!found) return fail(cat("input ", index, " is no constant")), std::vector<double>();
  std::vector<double> out;
  for (i64 i = 0; i < found->elements(); ++i) out.push_back(found->get(i));
  return out;
}

std::vector<i64> NodeImport::known_integers(std::size_t index) {
  const HostArray* found = data(input(index));
  if (!found) return fail(cat("input ", index, " is no constant")), std::vector<i64>();
  if (is_float(found->dtype)) return fail(cat("input ", index, " is to be of integers")), std::vector<i64>();
  std::vector<i64> out;
  for (i64 i = 0; i < found->elements(); ++i) out.push_back(integer_at(*found, i));
  return out;
}

std::vector<i64> NodeImport::integers_of(const char* attribute, std::size_t index, std::vector<i64> otherwise) {
  if (has(attribute)) return integers(attribute);
  return has_input(index) ? known_integers(index) : otherwise;
}

std::vector<ValueId> NodeImport::add_several(const std::string& op, WorkloadArguments arguments,
                                             const std::vector<ValueId>& inputs) {
  std::string error;
  std::optional<std::vector<ValueId>> made;
  if (std::ranges::any_of(inputs, [&](ValueId input) { return is_empty(input); })) fail(kNoElements);
  // Products of our own may have operands of two types, those of ONNX not.
  bool is_product = op == "matmul" || op.starts_with("conv");
  if (is_product && dtype(inputs[0]) != dtype(inputs[1]))
    fail(cat("its operands are ", name_of(dtype(inputs[0])), " and ", name_of(dtype(inputs[1]))));
  if (problem_.empty()) made = builder_.add(op, std::move(arguments), inputs, result_name(), error);
  if (made) return *made;
  fail(error);
  return {inputs.empty() ? scalar(0, DType::F32) : inputs[0]};
}

ValueId NodeImport::add(const std::string& op, WorkloadArguments arguments, const std::vector<ValueId>& inputs) {
  return add_several(op, std::move(arguments), inputs)[0];
}

ValueId NodeImport::constant(HostArray data) { return builder_.constant("", std::move(data)); }

ValueId NodeImport::scalar(double value, DType dtype) {
  HostArray data = HostArray::zeros(dtype, {});
  data.set(0, value);
  return constant(std::move(data));
}

ValueId NodeImport::broadcast(ValueId value, const std::vector<i64>& shape) {
  if (this->shape(value) == shape) return value;
  if (std::ranges::count(shape, 0) > 0) return nothing(shape, dtype(value));
  return add("broadcast", {{"R", shape}}, {value});
}

ValueId NodeImport::reshape(ValueId value, const std::vector<i64>& shape) {
  if (this->shape(value) == shape) return value;
  if (is_empty(value) && std::ranges::count(shape, 0) > 0) return nothing(shape, dtype(value));
  return add("reshape", {{"R", shape}}, {value});
}

ValueId NodeImport::transpose(ValueId value, const std::vector<i64>& order) {
  if (std::ranges::is_sorted(order)) return value;
  if (!is_empty(value)) return add("transpose", {{"order", order}}, {value});
  std::vector<i64> shape;
  for (i64 d : order) shape.push_back(extent(value, d));
  return nothing(shape, dtype(value));
}

ValueId NodeImport::cast(ValueId value, DType to) {
  DType from = dtype(value);
  if (from == to) return value;
  if (is_empty(value)) return nothing(shape(value), to);
  if (to == DType::Bool) return add("cast_to_bool", {}, {value});
  return from == DType::Bool ? add("cast_from_bool", {{"to", to}}, {value}) : add("cast", {{"to", to}}, {value});
}

double highest_of(DType dtype) {
  if (dtype == DType::Bool) return 1;
  return dtype == DType::U8 ? 255 : -1 - lowest_of(dtype);
}

std::vector<i64> common_shape(const std::vector<std::vector<i64>>& shapes) {
  std::vector<i64> common;
  for (const std::vector<i64>& own : shapes) {
    while (common.size() < own.size()) common.insert(common.begin(), 1);
    std::size_t ahead = common.size() - own.size();
    for (std::size_t d = 0; d < own.size(); ++d) {
      if (own[d] != 1) common[ahead + d] = own[d];
    }
  }
  return common;
}

void NodeImport::result(std::size_t index, ValueId value) {
  if (has_failed()) return;
  if (index < static_cast<std::size_t>(node_.output_size())) values_[node_.output(static_cast<int>(index))] = value;
}

i64 NodeImport::axis(i64 given, i64 rank) {
  i64 at = given < 0 ? given + rank : given;
  if (at >= 0 && at < rank) return at;
  fail(cat("there is no dimension ", given, " of ", rank));
  return 0;
}

void NodeImport::check_indices(ValueId index, const std::vector<i64>& shape, const std::vector<i64>& dimensions) {
  const HostArray* found = data(index);
  if (!found || is_float(found->dtype) || dimensions.empty()) return;
  for (i64 i = 0; i < found->elements(); ++i) {
    i64 dimension = dimensions[static_cast<std::size_t>(i) % dimensions.size()], value = integer_at(*found, i);
    i64 extent = shape[static_cast<std::size_t>(dimension)];
    if (value < -extent || value >= extent)
      return fail(cat("its index ", value, " lies outside of dimension ", dimension, ", whose indices are ", -extent,
                      " to ", extent - 1));
  }
}

const Converters& converters() {
  static const Converters table = [] {
    Converters all;
    for (auto* add : {add_elementwise, add_shapes, add_reductions, add_windows, add_products, add_losses, add_quantized,
                      add_resizing, add_recurrent, add_attention, add_places, add_trigonometry, add_boxes})
      add(all);
    return all;
  }();
  return table;
}

}  // namespace tw::graph::onnx
