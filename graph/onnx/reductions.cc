// Reductions, rows and normalisation.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

// Sorted, each once; all dimensions where none is named.
Ints axes_of(NodeImport& node, ValueId x) {
  Ints axes = node.integers_of("axes", 1);
  for (i64& axis : axes) axis = node.axis(axis, node.rank(x));
  if (axes.empty() && node.integer("noop_with_empty_axes", 0) == 0) {
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

// Reduced dimensions are kept with extent 1, or go.
ValueId reduced(NodeImport& node, const char* op, ValueId x, const Ints& axes, i64 keep) {
  if (axes.empty()) return x;
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
    ValueId made = reduced(node, op, before ? before(node, x) : x, axes, node.integer("keepdims", 1));
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

void layer_normalization(NodeImport& node) {
  ValueId x = node.input(0);
  i64 first = node.axis(node.integer("axis", -1), node.rank(x));
  double epsilon = node.real("epsilon", 1e-5);
  if (node.has_failed()) return;
  if (node.outputs() == 1) {
    ValueId made = node.add("standardize", {{"first", first}}, {x, node.scalar(epsilon, node.dtype(x))});
    return node.result(0, scaled(node, made, 1, 2, {}));
  }
  Ints axes;
  for (i64 d = first; d < node.rank(x); ++d) axes.push_back(d);
  Normalized made = normalized(node, x, axes, epsilon);
  node.result(0, scaled(node, made.value, 1, 2, {}));
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
  node.result(0, normalized(node, x, node.integers("axes", {0, 2, 3}), 1e-9).value);
}

void lp_normalization(NodeImport& node) {
  ValueId x = node.input(0);
  Ints axes = {node.axis(node.integer("axis", -1), node.rank(x))};
  bool is_first = node.integer("p", 2) == 1;
  ValueId norm = reduced(node, "reduce_sum", is_first ? absolute(node, x) : squared(node, x), axes, 1);
  if (!is_first) norm = node.add("square_root", {}, {norm});
  node.result(0, node.add("divide", {}, {x, node.broadcast(norm, node.shape(x))}));
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
  table["InstanceNormalization"] = instance_normalization;
  table["MeanVarianceNormalization"] = mean_variance_normalization;
  table["LpNormalization"] = lp_normalization;
}

}  // namespace tw::graph::onnx
