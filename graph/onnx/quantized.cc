// Integers that stand for floats: x = (q - zero point) * scale. Products are those of integers, as they are written.
#include <algorithm>

#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

// A number for each place of `axis`, or one for all.
ValueId spread(NodeImport& node, ValueId value, ValueId like, i64 axis) {
  Ints shape = node.shape(like);
  if (node.rank(value) == 0 || node.extent(value, 0) == 1) return node.broadcast(node.reshape(value, {}), shape);
  Ints along(shape.size(), 1);
  i64 at = node.axis(axis, node.rank(like));
  if (node.has_failed()) return like;
  along[static_cast<std::size_t>(at)] = node.extent(value, 0);
  return node.broadcast(node.reshape(value, along), shape);
}

// Rounds and saturates to the type.
ValueId quantized(NodeImport& node, ValueId x, ValueId scale, ValueId zero, i64 axis) {
  DType type = node.dtype(zero);
  ValueId ratio =
      node.add("rounded", {}, {node.add("divide", {}, {x, spread(node, node.cast(scale, node.dtype(x)), x, axis)})});
  ValueId shift = spread(node, node.cast(zero, node.dtype(x)), x, axis);
  ValueId sum = node.add("add", {}, {ratio, shift});
  auto limit = [&](double value) { return node.scalar(value, node.dtype(x)); };
  return node.cast(node.add("clamp", {}, {sum, limit(lowest_of(type)), limit(highest_of(type))}), type);
}

// The integers without the zero point.
ValueId centred(NodeImport& node, ValueId q, bool has_zero, ValueId zero, i64 axis) {
  ValueId wide = node.cast(q, DType::I32);
  return has_zero ? node.add("subtract", {}, {wide, spread(node, node.cast(zero, DType::I32), wide, axis)}) : wide;
}

// False, and a problem, if blocks of a dimension have scales of their own. `saturate` is about types that are not read.
bool is_plain(NodeImport& node) {
  node.ignore({"saturate"});
  if (node.integer("block_size", 0) != 0)
    return node.fail("numbers for blocks of a dimension are not supported"), false;
  return true;
}

void quantize(NodeImport& node) {
  if (!is_plain(node)) return;
  ValueId zero = node.has_input(2) ? node.input(2) : node.scalar(0, DType::U8);
  node.result(0, quantized(node, node.cast(node.input(0), DType::F32), node.input(1), zero, node.integer("axis", 1)));
}

void dequantize(NodeImport& node) {
  if (!is_plain(node)) return;
  ValueId q = node.input(0), scale = node.input(1);
  i64 axis = node.integer("axis", 1);
  ValueId whole = centred(node, q, node.has_input(2), node.has_input(2) ? node.input(2) : 0, axis);
  ValueId x = node.cast(whole, node.dtype(scale));
  node.result(0, node.add("multiply", {}, {x, spread(node, scale, x, axis)}));
}

// The range of x with 0 in it, in 255 steps.
void dynamic_quantize(NodeImport& node) {
  ValueId x = node.input(0);
  Ints axes;
  for (i64 d = 0; d < node.rank(x); ++d) axes.push_back(d);
  auto extreme = [&](const char* reduce, const char* with_zero) {
    ValueId found = node.add(reduce, {{"axes", axes}}, {x});
    return node.add(with_zero, {}, {found, node.number(0, found)});
  };
  ValueId low = extreme("reduce_min", "minimum"), high = extreme("reduce_max", "maximum");
  ValueId range = node.add("subtract", {}, {high, low});
  ValueId is_zero = node.add("equal", {}, {range, node.number(0, range)});
  ValueId scale = node.add("divide", {}, {range, node.number(255, range)});
  scale = node.add("where", {}, {is_zero, node.number(1, range), scale});  // all of x is 0
  ValueId zero = node.add("rounded", {}, {node.add("divide", {}, {node.add("negate", {}, {low}), scale})});
  zero = node.cast(zero, DType::U8);
  node.result(0, quantized(node, x, scale, zero, 0));
  node.result(1, scale);
  node.result(2, zero);
}

// Both operands without their zero points. The numbers are those of inputs; a zero point that is left out is 0.
struct Operands {
  ValueId a, b;
};
Operands centred_operands(NodeImport& node, std::size_t a, std::size_t a_zero, std::size_t b, std::size_t b_zero,
                          i64 a_axis, i64 b_axis) {
  auto one = [&](std::size_t value, std::size_t zero, i64 axis) {
    bool has_zero = node.has_input(zero);
    return centred(node, node.input(value), has_zero, has_zero ? node.input(zero) : 0, axis);
  };
  return {one(a, a_zero, a_axis), one(b, b_zero, b_axis)};
}

void conv_integer(NodeImport& node) {
  auto [x, weights] = centred_operands(node, 0, 2, 1, 3, 0, 0);
  node.result(0, convolution(node, x, weights));
}

void matmul_integer(NodeImport& node) {
  auto [a, b] = centred_operands(node, 0, 2, 1, 3, -2, -1);
  node.result(0, product(node, a, b));
}

// Sums of products brought to the scale of the result. The numbers are those of inputs. Scales of the first operand
// stand along `a_axis` of the sums, all others along `axis`.
void requantized(NodeImport& node, ValueId sums, std::size_t a_scale, std::size_t b_scale, std::size_t scale,
                 std::size_t zero, i64 a_axis, i64 axis) {
  ValueId x = node.cast(sums, DType::F32);
  x = node.add("multiply", {}, {x, spread(node, node.cast(node.input(a_scale), DType::F32), x, a_axis)});
  x = node.add("multiply", {}, {x, spread(node, node.cast(node.input(b_scale), DType::F32), x, axis)});
  node.result(0, quantized(node, x, node.input(scale), node.input(zero), axis));
}

void qlinear_matmul(NodeImport& node) {
  auto [a, b] = centred_operands(node, 0, 2, 3, 5, -2, -1);
  i64 rows = node.rank(node.input(3)) == 1 ? -1 : -2;  // of the result
  requantized(node, product(node, a, b), 1, 4, 6, 7, rows, -1);
}

void qlinear_conv(NodeImport& node) {
  auto [x, weights] = centred_operands(node, 0, 2, 3, 5, 0, 0);
  ValueId sums = convolution(node, x, weights);
  if (node.has_input(8)) sums = node.add("add", {}, {sums, spread(node, node.input(8), sums, 1)});
  requantized(node, sums, 1, 4, 6, 7, 1, 1);
}

}  // namespace

void add_quantized(Converters& table) {
  table["QuantizeLinear"] = quantize;
  table["DequantizeLinear"] = dequantize;
  table["DynamicQuantizeLinear"] = dynamic_quantize;
  table["ConvInteger"] = conv_integer;
  table["MatMulInteger"] = matmul_integer;
  table["QLinearMatMul"] = qlinear_matmul;
  table["QLinearConv"] = qlinear_conv;
}

}  // namespace tw::graph::onnx
