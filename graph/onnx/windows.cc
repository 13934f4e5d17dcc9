// Convolutions and pooling.
#include <algorithm>
#include <numeric>

#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

struct Window {
  Ints size, strides, dilations, before, after;
};

i64 reach(const Window& window, std::size_t d) { return window.dilations[d] * (window.size[d] - 1) + 1; }

// Attributes of a window over these extents; `size` of the weights, or empty.
Window window_of(NodeImport& node, const Ints& extents, Ints size) {
  std::size_t rank = extents.size();
  Window window;
  window.size = size.empty() ? node.integers("kernel_shape") : size;
  window.strides = node.integers("strides", Ints(rank, 1));
  window.dilations = node.integers("dilations", Ints(rank, 1));
  Ints pads = node.integers("pads", Ints(2 * rank, 0));
  window.before.assign(rank, 0), window.after.assign(rank, 0);
  bool fits = window.size.size() == rank && window.strides.size() == rank && window.dilations.size() == rank &&
              pads.size() == 2 * rank;
  if (!fits) return node.fail("its attributes are not for this number of dimensions"), window;
  std::string how = node.text("auto_pad", "NOTSET");
  for (std::size_t d = 0; d < rank; ++d) {
    if (window.size[d] < 1 || window.strides[d] < 1 || window.dilations[d] < 1)
      return node.fail("windows, strides and dilations are at least 1"), window;
    if (how == "NOTSET") window.before[d] = pads[d], window.after[d] = pads[rank + d];
    if (how != "SAME_UPPER" && how != "SAME_LOWER") continue;
    i64 wanted = (extents[d] + window.strides[d] - 1) / window.strides[d];
    i64 all = std::max<i64>(0, (wanted - 1) * window.strides[d] + reach(window, d) - extents[d]);
    window.before[d] = how == "SAME_UPPER" ? all / 2 : all - all / 2;
    window.after[d] = all - window.before[d];
  }
  return window;
}

Ints spatial(NodeImport& node, ValueId x) {
  const Ints shape = node.shape(x);
  if (shape.size() < 3) return node.fail("it needs a batch, channels and at least one dimension more"), Ints();
  return {shape.begin() + 2, shape.end()};
}

ValueId per_channel(NodeImport& node, ValueId bias, ValueId like) {
  Ints shape(static_cast<std::size_t>(std::max<i64>(1, node.rank(like) - 1)), 1);
  shape[0] = node.extent(like, 1);
  return node.broadcast(node.reshape(bias, shape), node.shape(like));
}

void conv(NodeImport& node) {
  ValueId made = convolution(node, node.input(0), node.input(1));
  if (node.has_failed()) return;
  if (node.has_input(2)) made = node.add("add", {}, {made, per_channel(node, node.input(2), made)});
  node.result(0, made);
}

// `output_shape` decides the pads; else pads and `output_padding` the shape.
void conv_transposed(NodeImport& node) {
  node.ignore({"kernel_shape"});  // that of the weights
  ValueId x = node.input(0), weights = node.input(1);
  Ints extents = spatial(node, x);
  Window window = window_of(node, extents, spatial(node, weights));
  if (node.has_failed()) return;
  std::string how = node.text("auto_pad", "NOTSET");
  bool is_same = how == "SAME_UPPER" || how == "SAME_LOWER";
  Ints more = node.integers("output_padding", Ints(extents.size(), 0)), out = node.integers("output_shape");
  if (more.size() != extents.size() || (!out.empty() && out.size() != extents.size()))
    return node.fail("its attributes are not for this number of dimensions");
  bool is_given = !out.empty() || is_same;
  out.resize(extents.size(), 0);
  for (std::size_t d = 0; d < extents.size(); ++d) {
    i64 whole = window.strides[d] * (extents[d] - 1) + more[d] + reach(window, d);
    if (is_same && out[d] == 0) out[d] = extents[d] * window.strides[d];
    if (!is_given) out[d] = whole - window.before[d] - window.after[d];
    if (!is_given) continue;
    i64 cut = std::max<i64>(0, whole - out[d]);
    window.before[d] = how == "SAME_UPPER" ? cut / 2 : cut - cut / 2;
  }
  ValueId made = node.add("conv_transposed",
                          {{"strides", window.strides},
                           {"before", window.before},
                           {"out", out},
                           {"dilations", window.dilations},
                           {"groups", node.integer("group", 1)}},
                          {x, weights});
  if (node.has_input(2)) made = node.add("add", {}, {made, per_channel(node, node.input(2), made)});
  node.result(0, made);
}

// Rounded up, the last window may go beyond the padding, but must begin inside.
void round_up(NodeImport& node, const Ints& extents, Window& window) {
  if (node.integer("ceil_mode", 0) == 0) return;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    i64 padded = extents[d] + window.before[d] + window.after[d], steps = padded - reach(window, d);
    i64 out = (steps + window.strides[d] - 1) / window.strides[d] + 1;
    if ((out - 1) * window.strides[d] >= extents[d] + window.before[d]) --out;
    window.after[d] += std::max<i64>(0, (out - 1) * window.strides[d] + reach(window, d) - padded);
  }
}

void max_pool(NodeImport& node) {
  node.ignore({"storage_order"});  // of the places, which are the second result
  ValueId x = node.input(0);
  Ints extents = spatial(node, x);
  Window window = window_of(node, extents, {});
  if (node.has_failed()) return;
  round_up(node, extents, window);
  WorkloadArguments arguments{{"window", window.size},
                              {"strides", window.strides},
                              {"before", window.before},
                              {"after", window.after},
                              {"dilations", window.dilations}};
  node.result(0, node.add("max_pool", arguments, {x}));
  if (node.outputs() < 2) return;
  arguments.push_back({"columns_first", node.integer("storage_order", 0)});
  node.result(1, node.add("max_pool_places", arguments, {x}));
}

// The mean where a window counts other elements than all of its own: a dilated window, or one that ends beyond the
// padding.
void partial_means(NodeImport& node, const Window& window, i64 counts_padding, const Ints& after) {
  Ints none(after.size(), 0);
  node.result(0, node.add("average_pool_counted",
                          {{"window", window.size},
                           {"strides", window.strides},
                           {"before", window.before},
                           {"after", window.after},
                           {"dilations", window.dilations},
                           {"counted_before", counts_padding ? window.before : none},
                           {"counted_after", counts_padding ? after : none}},
                          {node.input(0)}));
}

// The p-th root of the sum of p-th powers.
void lp_pool(NodeImport& node) {
  ValueId x = node.input(0);
  Ints extents = spatial(node, x);
  Window window = window_of(node, extents, {});
  if (node.has_failed()) return;
  round_up(node, extents, window);
  double p = static_cast<double>(node.integer("p", 2));
  if (p < 1) return node.fail("p is at least 1");
  node.result(0, node.add("lp_pool",
                          {{"window", window.size},
                           {"strides", window.strides},
                           {"before", window.before},
                           {"after", window.after},
                           {"dilations", window.dilations}},
                          {x, node.scalar(p, node.dtype(x)), node.scalar(1 / p, node.dtype(x))}));
}

void average_pool(NodeImport& node) {
  ValueId x = node.input(0);
  Ints extents = spatial(node, x);
  Window window = window_of(node, extents, {});
  if (node.has_failed()) return;
  bool is_dilated = std::ranges::any_of(window.dilations, [](i64 d) { return d != 1; });
  i64 counts_padding = node.integer("count_include_pad", 0);
  Ints after = window.after;
  round_up(node, extents, window);
  if (is_dilated || (counts_padding && after != window.after))
    return partial_means(node, window, counts_padding, after);
  node.result(0, node.add("average_pool",
                          {{"window", window.size},
                           {"strides", window.strides},
                           {"before", window.before},
                           {"after", window.after},
                           {"counts_padding", counts_padding}},
                          {x}));
}

// A reduction over all of space.
Converter global(const char* op, bool is_mean) {
  return [op, is_mean](NodeImport& node) {
    ValueId x = node.input(0);
    Ints axes(spatial(node, x).size());
    std::iota(axes.begin(), axes.end(), 2);
    if (node.has_failed()) return;
    Ints kept = node.shape(x);
    std::fill(kept.begin() + 2, kept.end(), 1);
    ValueId made = node.reshape(node.add(op, {{"axes", axes}}, {x}), kept);
    double count = 1;
    for (i64 axis : axes) count *= static_cast<double>(node.extent(x, axis));
    ValueId divisor = node.broadcast(node.scalar(count, node.dtype(made)), node.shape(made));
    node.result(0, is_mean ? node.add("divide", {}, {made, divisor}) : made);
  };
}

void global_lp_pool(NodeImport& node) {
  ValueId x = node.input(0);
  Ints axes(spatial(node, x).size()), kept = node.shape(x);
  auto p = static_cast<double>(node.integer("p", 2));
  if (p < 1) return node.fail("p is at least 1");
  std::iota(axes.begin(), axes.end(), 2);
  if (node.has_failed()) return;
  std::fill(kept.begin() + 2, kept.end(), 1);
  ValueId powers = node.add("power", {}, {node.add("absolute", {}, {x}), node.number(p, x)});
  ValueId sum = node.reshape(node.add("reduce_sum", {{"axes", axes}}, {powers}), kept);
  node.result(0, node.add("power", {}, {sum, node.number(1 / p, sum)}));
}

void local_response(NodeImport& node) {
  ValueId x = node.input(0);
  i64 size = node.integer("size", 1);
  auto scalar = [&](double value) { return node.scalar(value, node.dtype(x)); };
  node.result(0, node.add("local_response", {{"size", size}},
                          {x, scalar(node.real("alpha", 1e-4) / static_cast<double>(size)),
                           scalar(node.real("beta", 0.75)), scalar(node.real("bias", 1))}));
}

}  // namespace

ValueId convolution(NodeImport& node, ValueId x, ValueId weights) {
  node.ignore({"kernel_shape"});  // that of the weights
  Window window = window_of(node, spatial(node, x), spatial(node, weights));
  return node.add("conv",
                  {{"strides", window.strides},
                   {"before", window.before},
                   {"after", window.after},
                   {"dilations", window.dilations},
                   {"groups", node.integer("group", 1)}},
                  {x, weights});
}

void add_windows(Converters& table) {
  table["Conv"] = conv;
  table["ConvTranspose"] = conv_transposed;
  table["MaxPool"] = max_pool;
  table["AveragePool"] = average_pool;
  table["GlobalAveragePool"] = global("reduce_sum", true);
  table["GlobalMaxPool"] = global("reduce_max", false);
  table["GlobalLpPool"] = global_lp_pool;
  table["LpPool"] = lp_pool;
  table["LRN"] = local_response;
}

}  // namespace tw::graph::onnx
