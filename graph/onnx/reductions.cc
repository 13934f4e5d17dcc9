// Reductions, rows and normalisation.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

// Sorted, each once; all dimensions where none is named.
Ints axes_of(NodeImport& node, ValueId x) {
  Ints axes = node.integers_of("axes", 1);
  for (i64& axis : axes) axis = node.axis(axis, node.rank(x));
  bool are_none_kept = node.integer("noop_with_empty_axes", 0) == 0;
  if (axes.empty() && are_none_kept) {
    axes.resize(static_cast<std::size_t>(node.rank(x)));
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::ranges::sort(axes);
  axes.erase(std::ranges::unique(axes).begin(), axes.end());
  return axes;
}

Ints with_ones(Ints shape, const Ints& axes) {
  for (i64 axis : axes) {
    if (axis < static_cast<i64>(shape.size())) shape[static_cast<std::size_t>(axis)] = 1;
  }
  return shape;
}

// What a reduction of no elements gives.
double of_nothing(const std::string& op, DType dtype) {
  double lowest = is_float(dtype) ? -std::numeric_limits<double>::infinity() : lowest_of(dtype);
  if (op == "reduce_max") return lowest;
  if (op == "reduce_min") return is_float(dtype) ? -lowest : highest_of(dtype);
  return op == "reduce_prod" ? 1 : 0;
}

// Reduced dimensions are kept with extent 1, or go.
ValueId reduced(NodeImport& node, const std::string& op, ValueId x, const Ints& axes, i64 keep) {
  if (axes.empty()) return x;
  if (node.is_empty(x)) {
    Ints shape = with_ones(node.shape(x), axes), kept;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (std::ranges::count(axes, static_cast<i64>(d)) == 0) kept.push_back(shape[d]);
    }
    return node.broadcast(node.scalar(of_nothing(op, node.dtype(x)), node.dtype(x)), keep ? shape : kept);
  }
  ValueId made = node.add(op, {{"axes", axes}}, {x});
  return keep ? node.reshape(made, with_ones(node.shape(x), axes)) : made;
}

double count_of(NodeImport& node, ValueId x, const Ints& axes) {
  double count = 1;
  for (i64 axis : axes) count *= static_cast<double>(node.extent(x, axis));
  return count;
}

// `before` and `behind` change elements before the sum and its result.
Converter reduction(const char* op, std::function<ValueId(NodeImport&, ValueId)> before = {},
                    std::function<ValueId(NodeImport&, ValueId)> behind = {}) {
  return [=](NodeImport& node) {
    ValueId x = node.input(0);
    Ints axes = axes_of(node, x);
    ValueId made =
        reduced(node, op, before && !node.is_empty(x) ? before(node, x) : x, axes, node.integer("keepdims", 1));
    node.result(0, behind ? behind(node, made) : made);
  };
}

ValueId squared(NodeImport& node, ValueId x) { return node.add("multiply", {}, {x, x}); }
ValueId absolute(NodeImport& node, ValueId x) { return node.add("absolute", {}, {x}); }
ValueId logarithm(NodeImport& node, ValueId x) { return node.add("logarithm", {}, {x}); }

ValueId mean_of(NodeImport& node, ValueId x, const Ints& axes, i64 keep) {
  ValueId sum = reduced(node, "reduce_sum", x, axes, keep);
  return node.add("divide", {}, {sum, node.number(count_of(node, x, axes), sum)});
}

void reduce_mean(NodeImport& node) {
  ValueId x = node.input(0);
  node.result(0, mean_of(node, x, axes_of(node, x), node.integer("keepdims", 1)));
}

// The largest element is taken out, so that nothing overflows.
void reduce_log_sum_exp(NodeImport& node) {
  ValueId x = node.input(0);
  Ints axes = axes_of(node, x);
  i64 keep = node.integer("keepdims", 1);
  if (node.is_empty(x)) return node.result(0, reduced(node, "reduce_max", x, axes, keep));
  ValueId top = reduced(node, "reduce_max", x, axes, 1);
  ValueId small = node.add("exponential", {}, {node.add("subtract", {}, {x, node.broadcast(top, node.shape(x))})});
  ValueId sum = logarithm(node, reduced(node, "reduce_sum", small, axes, keep));
  node.result(0, node.add("add", {}, {sum, node.reshape(top, node.shape(sum))}));
}

Converter arg(const char* op) {
  return [op](NodeImport& node) {
    ValueId x = node.input(0);
    const Ints shape = node.shape(x);
    i64 axis = node.axis(node.integer("axis", 0), node.rank(x));
    if (node.has_failed()) return;
    auto at = static_cast<std::size_t>(axis);
    bool is_last = node.integer("select_last_index", 0) != 0;  // the first one from the end
    if (is_last) {
      Ints start(shape.size(), 0), step(shape.size(), 1);
      start[at] = shape[at] - 1, step[at] = -1;
      x = node.add("slice", {{"start", start}, {"step", step}, {"R", shape}}, {x});
    }
    ValueId found = node.add(op, {{"axis", axis}}, {x});
    if (is_last) found = node.add("subtract", {}, {node.number(static_cast<double>(shape[at] - 1), found), found});
    node.result(0, node.integer("keepdims", 1) ? node.reshape(found, with_ones(shape, {axis})) : found);
  };
}

// Before opset 13 all dimensions from the axis on are one row.
Converter rows(const char* op) {
  return [op](NodeImport& node) {
    ValueId x = node.input(0);
    bool is_old = node.opset() < 13;
    const Ints shape = node.shape(x);
    i64 axis = node.axis(node.integer("axis", is_old ? 1 : -1), node.rank(x));
    if (!is_old) return node.result(0, node.add(op, {{"axis", axis}}, {x}));
    i64 outer = 1, inner = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) (static_cast<i64>(d) < axis ? outer : inner) *= shape[d];
    ValueId made = node.add(op, {{"axis", i64{1}}}, {node.reshape(x, {outer, inner})});
    node.result(0, node.reshape(made, shape));
  };
}

// (x - mean) / sqrt(variance + epsilon) over some dimensions; also what was taken out.
struct Normalized {
  ValueId value, mean, inverse;
};
Normalized normalized(NodeImport& node, ValueId x, const Ints& axes, double epsilon) {
  ValueId mean = mean_of(node, x, axes, 1);
  ValueId centred = node.add("subtract", {}, {x, node.broadcast(mean, node.shape(x))});
  ValueId variance = mean_of(node, squared(node, centred), axes, 1);
  ValueId deviation = node.add("square_root", {}, {node.add("add", {}, {variance, node.number(epsilon, variance)})});
  ValueId inverse = node.add("reciprocal", {}, {deviation});
  return {node.add("multiply", {}, {centred, node.broadcast(inverse, node.shape(x))}), mean, inverse};
}

ValueId scaled(NodeImport& node, ValueId x, std::size_t scale, std::size_t shift, const Ints& shape) {
  auto spread = [&](std::size_t index) {
    ValueId value = node.input(index);
    return node.broadcast(shape.empty() ? value : node.reshape(value, shape), node.shape(x));
  };
  if (node.has_input(scale)) x = node.add("multiply", {}, {x, spread(scale)});
  if (node.has_input(shift)) x = node.add("add", {}, {x, spread(shift)});
  return x;
}

// The type of what is computed on the way to the result: `stash_type` is f32 where it is 1.
DType wide_type(NodeImport& node, DType own) {
  bool is_wide = node.integer("stash_type", 1) == 1, is_short = own == DType::F16 || own == DType::BF16;
  return is_wide && is_short ? DType::F32 : own;
}

void layer_normalization(NodeImport& node) {
  ValueId x = node.input(0);
  DType own = node.dtype(x), type = wide_type(node, own);
  i64 first = node.axis(node.integer("axis", -1), node.rank(x));
  double epsilon = node.real("epsilon", 1e-5);
  if (node.has_failed()) return;
  ValueId wide = node.cast(x, type);
  if (node.outputs() == 1) {
    ValueId made = node.add("standardize", {{"first", first}}, {wide, node.scalar(epsilon, type)});
    return node.result(0, scaled(node, node.cast(made, own), 1, 2, {}));
  }
  Ints axes;
  for (i64 d = first; d < node.rank(x); ++d) axes.push_back(d);
  Normalized made = normalized(node, wide, axes, epsilon);
  node.result(0, scaled(node, node.cast(made.value, own), 1, 2, {}));
  node.result(1, made.mean);
  node.result(2, made.inverse);
}

void instance_normalization(NodeImport& node) {
  ValueId x = node.input(0);
  Ints axes, channels(static_cast<std::size_t>(std::max<i64>(1, node.rank(x) - 1)), 1);
  for (i64 d = 2; d < node.rank(x); ++d) axes.push_back(d);
  if (node.rank(x) > 1) channels[0] = node.shape(x)[1];
  node.result(0, scaled(node, normalized(node, x, axes, node.real("epsilon", 1e-5)).value, 1, 2, channels));
}

// Scale and shift are those of groups before opset 21, then of channels.
void group_normalization(NodeImport& node) {
  ValueId x = node.input(0);
  const Ints shape = node.shape(x);
  i64 groups = node.integer("num_groups", 0);
  if (shape.size() < 2 || groups < 1 || shape[1] % groups != 0)
    return node.fail("its channels do not divide into the groups");
  DType own = node.dtype(x);
  i64 inner = shape[1] / groups;
  for (std::size_t d = 2; d < shape.size(); ++d) inner *= shape[d];
  ValueId rows = node.reshape(node.cast(x, wide_type(node, own)), {shape[0], groups, inner});
  ValueId made = node.cast(normalized(node, rows, {2}, node.real("epsilon", 1e-5)).value, own);
  if (node.opset() < 21) return node.result(0, node.reshape(scaled(node, made, 1, 2, {groups, 1}), shape));
  Ints channels(shape.size() - 1, 1);
  channels[0] = shape[1];
  node.result(0, scaled(node, node.reshape(made, shape), 1, 2, channels));
}

void rms_normalization(NodeImport& node) {
  ValueId x = node.input(0);
  const Ints shape = node.shape(x);
  i64 axis = node.axis(node.integer("axis", -1), node.rank(x));
  if (node.has_failed()) return;
  DType wide = wide_type(node, node.dtype(x));
  ValueId scale = node.input(1);
  if (node.rank(scale) > node.rank(x) - axis) return node.fail("its scale has more dimensions than are normalised");
  scale = node.broadcast(scale, Ints(shape.begin() + axis, shape.end()));
  node.result(0, node.add("rms_normalization", {{"axis", axis}, {"wide", wide}},
                          {x, scale, node.scalar(node.real("epsilon", 1e-5), wide)}));
}

void cumulative_sum(NodeImport& node) {
  ValueId x = node.input(0);
  Ints axis = node.known_integers(1);
  if (axis.size() != 1) return node.fail("its axis is no number");
  node.result(0, node.add("cumulative_sum",
                          {{"axis", node.axis(axis[0], node.rank(x))},
                           {"exclusive", node.integer("exclusive", 0)},
                           {"reverse", node.integer("reverse", 0)}},
                          {x}));
}

void mean_variance_normalization(NodeImport& node) {
  ValueId x = node.input(0);
  Ints axes = node.integers("axes", {0, 2, 3});
  for (i64& axis : axes) axis = node.axis(axis, node.rank(x));
  if (!node.has_failed()) node.result(0, normalized(node, x, axes, 1e-9).value);
}

void lp_normalization(NodeImport& node) {
  ValueId x = node.input(0);
  Ints axes = {node.axis(node.integer("axis", -1), node.rank(x))};
  bool is_first = node.integer("p", 2) == 1;
  ValueId norm = reduced(node, "reduce_sum", is_first ? absolute(node, x) : squared(node, x), axes, 1);
  if (!is_first) norm = node.add("square_root", {}, {norm});
  node.result(0, node.add("divide_or_zero", {}, {x, node.broadcast(norm, node.shape(x))}));
}

}  // namespace

void add_reductions(Converters& table) {
  auto root = [](NodeImport& node, ValueId x) { return node.add("square_root", {}, {x}); };
  table["ReduceSum"] = reduction("reduce_sum");
  table["ReduceMax"] = reduction("reduce_max");
  table["ReduceMin"] = reduction("reduce_min");
  table["ReduceProd"] = reduction("reduce_prod");
  table["ReduceL1"] = reduction("reduce_sum", absolute);
  table["ReduceL2"] = reduction("reduce_sum", squared, root);
  table["ReduceSumSquare"] = reduction("reduce_sum", squared);
  table["ReduceLogSum"] = reduction("reduce_sum", {}, logarithm);
  table["ReduceLogSumExp"] = reduce_log_sum_exp;
  table["ReduceMean"] = reduce_mean;
  table["ArgMax"] = arg("argmax");
  table["ArgMin"] = arg("argmin");
  table["Softmax"] = rows("softmax");
  table["LogSoftmax"] = rows("log_softmax");
  table["Hardmax"] = rows("hardmax");
  table["CumSum"] = cumulative_sum;
  table["LayerNormalization"] = layer_normalization;
  table["GroupNormalization"] = group_normalization;
  table["RMSNormalization"] = rms_normalization;
  table["InstanceNormalization"] = instance_normalization;
  table["MeanVarianceNormalization"] = mean_variance_normalization;
  table["LpNormalization"] = lp_normalization;
}

}  // namespace tw::graph::onnx
