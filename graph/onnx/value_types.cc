#include "graph/onnx/value_types.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "dsl/ir/limits.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Dimension = proto::TensorShapeProto::Dimension;

// The files of some exporters have 0 or -1 for an open dimension, too.
bool is_fixed(const Dimension& dimension) {
  return dimension.value_case() == Dimension::kDimValue && dimension.dim_value() > 0;
}

// "" if it has none. Some exporters write these for dimensions that have nothing in common.
std::string name_of_open(const Dimension& dimension) {
  const std::string& name = dimension.dim_param();
  return name == "?" || name == "None" ? "" : name;
}

std::string shown(const Dimension& dimension) {
  std::string name = name_of_open(dimension);
  return is_fixed(dimension) ? std::to_string(dimension.dim_value()) : name.empty() ? "?" : name;
}

std::string declared_type(const proto::TypeProto::Tensor& type) {
  std::vector<std::string> dims;
  for (const Dimension& dimension : type.shape().dim()) dims.push_back(shown(dimension));
  std::optional<DType> dtype = dtype_of(type.elem_type());
  return cat(dtype ? name_of(*dtype) : type_name(type.elem_type()), "[", join(dims, ", "), "]");
}

bool may_have_shape(const proto::TensorShapeProto& declared, const std::vector<i64>& shape, bool has_any_rows) {
  if (declared.dim().empty() || shape.empty()) return true;
  if (declared.dim_size() != std::ssize(shape)) return !std::ranges::all_of(declared.dim(), is_fixed);
  for (int d = has_any_rows; d < declared.dim_size(); ++d) {
    const Dimension& dimension = declared.dim(d);
    if (is_fixed(dimension) && dimension.dim_value() != shape[static_cast<std::size_t>(d)]) return false;
  }
  return true;
}

}  // namespace

InputShapes::InputShapes(const proto::GraphProto& graph, const std::map<std::string, std::vector<i64>>& said)
    : said_(said) {
  for (const proto::ValueInfoProto& input : graph.input()) {
    auto given = said.find(input.name());
    const proto::TensorShapeProto& shape = input.type().tensor_type().shape();
    if (given == said.end() || shape.dim_size() != std::ssize(given->second)) continue;
    for (int d = 0; d < shape.dim_size(); ++d) {
      std::string name = name_of_open(shape.dim(d));
      if (!name.empty()) bound_.try_emplace(name, given->second[static_cast<std::size_t>(d)], input.name());
    }
  }
}

std::optional<std::vector<i64>> InputShapes::of(const proto::ValueInfoProto& input, std::string& problem) const {
  const proto::TypeProto::Tensor& type = input.type().tensor_type();
  auto given = said_.find(input.name());
  if (given != said_.end()) {
    problem = type.has_shape() ? contradiction(input, given->second) : "";
    return problem.empty() ? std::optional(given->second) : std::nullopt;
  }
  if (!type.has_shape()) return problem = cat("input `", input.name(), "` has no shape: say it"), std::nullopt;
  std::vector<i64> shape;
  for (int d = 0; d < type.shape().dim_size(); ++d) {
    std::optional<i64> own = extent(input, d, problem);
    if (!own) return std::nullopt;
    shape.push_back(*own);
  }
  return shape;
}

std::optional<i64> InputShapes::extent(const proto::ValueInfoProto& input, int dimension, std::string& problem) const {
  const Dimension& own = input.type().tensor_type().shape().dim(dimension);
  if (own.value_case() == Dimension::kDimValue && own.dim_value() >= 0) return own.dim_value();
  auto known = bound_.find(name_of_open(own));
  if (known != bound_.end()) return known->second.extent;
  return problem = cat("input `", input.name(), "` has an open dimension `", shown(own), "`: say its shape"),
         std::nullopt;
}

std::string InputShapes::contradiction(const proto::ValueInfoProto& input, const std::vector<i64>& shape) const {
  const proto::TensorShapeProto& own = input.type().tensor_type().shape();
  if (own.dim_size() != std::ssize(shape))
    return cat("input `", input.name(), "` has ", own.dim_size(), " dimensions, not the ", shape.size(), " of [",
               join(shape, ", "), "]");
  for (int d = 0; d < own.dim_size(); ++d) {
    const Dimension& dimension = own.dim(d);
    i64 said = shape[static_cast<std::size_t>(d)];
    if (is_fixed(dimension) && dimension.dim_value() != said)
      return cat("dimension ", d, " of input `", input.name(), "` is ", dimension.dim_value(), " in the file, not ",
                 said);
    auto known = bound_.find(name_of_open(dimension));
    if (known != bound_.end() && known->second.extent != said)
      return cat("the dimension `", known->first, "` is ", known->second.extent, " in input `", known->second.input,
                 "` and ", said, " in input `", input.name(), "`; it is to be the same");
  }
  return "";
}

std::string contradiction_of_output(const proto::ValueInfoProto& declared, const OperandType& type, bool has_any_rows) {
  const proto::TypeProto::Tensor& own = declared.type().tensor_type();
  bool has_type = own.elem_type() != proto::TensorProto::UNDEFINED;
  bool may_have_type = !has_type || dtype_of(own.elem_type()) == type.dtype;
  if (may_have_type && may_have_shape(own.shape(), type.shape, has_any_rows)) return "";
  return cat("output `", declared.name(), "` is declared as ", declared_type(own), ", but its nodes make ",
             name_of(type.dtype), "[", join(type.shape, ", "), "]");
}

bool is_possible(const std::vector<i64>& shape) {
  i64 elements = 1;
  return std::ranges::all_of(shape, [&](i64 extent) {
    return !__builtin_mul_overflow(elements, extent, &elements) && elements <= kMostModelElements;
  });
}

}  // namespace tw::graph::onnx
