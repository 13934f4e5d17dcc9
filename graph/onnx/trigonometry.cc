// Trigonometric functions, and windows that are made of them.
#include <cmath>

#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

Converter function(const char* op, WorkloadArguments arguments = {}) {
  return [op, arguments](NodeImport& node) {
    ValueId x = node.input(0);
    if (node.dtype(x) == DType::F64) return node.fail("it is computed in f32, which is too little for f64");
    node.result(0, node.add(op, arguments, {x}));
  };
}

// A sum of cosines over a size that is known.
Converter window(double a0, double a1, double a2) {
  return [=](NodeImport& node) {
    std::vector<i64> size = node.known_integers(0);
    std::optional<DType> type = dtype_of(static_cast<int>(node.integer("output_datatype", 1)));
    if (size.size() != 1 || size[0] < 1 || size[0] > 1 << 24) return node.fail("its size is not supported");
    if (!type || !is_float(*type)) return node.fail("its type is not supported");
    HostArray data = HostArray::zeros(*type, {size[0]});
    double period = static_cast<double>(size[0]) - (node.integer("periodic", 1) != 0 ? 0 : 1);
    for (i64 i = 0; i < size[0]; ++i) {
      double angle = period == 0 ? 0 : 2 * M_PI * static_cast<double>(i) / period;
      data.set(i, a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
    }
    node.result(0, node.constant(std::move(data)));
  };
}

}  // namespace

void add_trigonometry(Converters& table) {
  table["Sin"] = function("sine");
  table["Cos"] = function("cosine");
  table["Tan"] = function("tangent");
  table["Atan"] = function("arctangent", {{"half", i64{0}}});
  table["Asin"] = function("arctangent", {{"half", i64{1}}});
  table["Acos"] = function("arctangent", {{"half", i64{2}}});
  table["Asinh"] = function("area_sine");
  table["Acosh"] = function("area_cosine");
  table["Atanh"] = function("area_tangent");
  table["HannWindow"] = window(0.5, 0.5, 0);
  table["HammingWindow"] = window(25.0 / 46, 21.0 / 46, 0);
  table["BlackmanWindow"] = window(0.42, 0.5, 0.08);
}

}  // namespace tw::graph::onnx
