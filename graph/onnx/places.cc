// Operators that bring elements to places: around a tensor, by indices, by coordinates.
#include <algorithm>
#include <numeric>

#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

// Negative pads cut off; the others go around what is left.
ValueId padded(NodeImport& node, ValueId x, const std::string& mode, Ints before, Ints after, ValueId value) {
  Ints start(before.size(), 0), step(before.size(), 1), shape = node.shape(x);
  for (std::size_t d = 0; d < before.size(); ++d) {
    start[d] = std::max<i64>(0, -before[d]);
    shape[d] -= start[d] + std::max<i64>(0, -after[d]);
    before[d] = std::max<i64>(0, before[d]), after[d] = std::max<i64>(0, after[d]);
    if (shape[d] < 1) return node.fail("it cuts everything off"), x;
  }
  if (shape != node.shape(x)) x = node.add("slice", {{"start", start}, {"step", step}, {"R", shape}}, {x});
  WorkloadArguments pads{{"before", before}, {"after", after}};
  if (mode == "constant") return node.add("pad", pads, {x, value});
  if (mode == "edge") return node.add("pad_edge", pads, {x});
  if (mode == "reflect") return node.add("pad_mirrored", pads, {x});
  if (mode == "wrap") return node.add("pad_repeated", pads, {x});
  return node.fail(cat("mode `", mode, "` is not supported")), x;
}

Ints all_axes(NodeImport& node, ValueId x) {
  Ints axes(static_cast<std::size_t>(node.rank(x)));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

void pad(NodeImport& node) {
  ValueId x = node.input(0);
  Ints pads = node.integers_of("pads", 1), axes = node.has_input(3) ? node.known_integers(3) : Ints();
  if (axes.empty()) axes = all_axes(node, x);
  if (pads.size() != 2 * axes.size()) return node.fail("it needs two pads for each dimension");
  Ints before(static_cast<std::size_t>(node.rank(x)), 0), after = before;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    auto d = static_cast<std::size_t>(node.axis(axes[i], node.rank(x)));
    if (node.has_failed()) return;
    before[d] = pads[i], after[d] = pads[axes.size() + i];
  }
  ValueId value =
      node.has_input(2) ? node.reshape(node.input(2), {}) : node.scalar(node.real("value", 0), node.dtype(x));
  node.result(0, padded(node, x, node.text("mode", "constant"), before, after, value));
}

// The middle of a dimension, or it in the middle of zeros.
void center_crop_pad(NodeImport& node) {
  ValueId x = node.input(0);
  Ints wanted = node.known_integers(1), axes = node.integers("axes", all_axes(node, x));
  if (wanted.size() != axes.size()) return node.fail("it needs an extent for each dimension");
  Ints before(static_cast<std::size_t>(node.rank(x)), 0), after = before;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    auto d = static_cast<std::size_t>(node.axis(axes[i], node.rank(x)));
    if (node.has_failed()) return;
    i64 more = wanted[i] - node.shape(x)[d], half = (more < 0 ? -more : more) / 2;
    before[d] = more < 0 ? -half : half, after[d] = more - before[d];
  }
  node.result(0, padded(node, x, "constant", before, after, node.scalar(0, node.dtype(x))));
}

// "", or "_add", ...: how updates of one element are combined.
std::string how_combined(NodeImport& node) {
  std::string how = node.text("reduction", "none");
  if (how == "none") return "";
  if (how != "add" && how != "mul" && how != "max" && how != "min")
    node.fail(cat("reduction `", how, "` is not supported"));
  return "_" + how;
}

void scatter_elements(NodeImport& node) {
  ValueId x = node.input(0);
  std::string how = how_combined(node);
  i64 axis = node.axis(node.integer("axis", 0), node.rank(x));
  node.result(0, node.add("scatter_elements" + how, {{"axis", axis}}, {x, node.input(1), node.input(2)}));
}

void scatter_nd(NodeImport& node) {
  std::string how = how_combined(node);
  node.result(0, node.add("scatter_nd" + how, {}, {node.input(0), node.input(1), node.input(2)}));
}

// Zeros with the elements of X at their places in the whole tensor.
void max_unpool(NodeImport& node) {
  ValueId x = node.input(0), at = node.input(1);
  const Ints from = node.shape(x), size = node.integers("kernel_shape");
  std::size_t rank = size.size();
  Ints strides = node.integers("strides", Ints(rank, 1)), pads = node.integers("pads", Ints(2 * rank, 0));
  if (from.size() != rank + 2 || strides.size() != rank || pads.size() != 2 * rank || node.shape(at) != from)
    return node.fail("its attributes are not for this number of dimensions");
  Ints small = from;
  for (std::size_t d = 0; d < rank; ++d)
    small[d + 2] = (from[d + 2] - 1) * strides[d] + size[d] - pads[d] - pads[rank + d];
  Ints shape = node.has_input(2) ? node.known_integers(2) : small;
  if (shape.size() != from.size()) return node.fail("the shape of its result has another number of dimensions");
  auto count = [](const Ints& extents) {
    return std::accumulate(extents.begin(), extents.end(), i64{1},
                           [](i64 a, i64 b) { return b < 1 || __builtin_mul_overflow(a, b, &a) ? 0 : a; });
  };
  // Places are those in the tensor that the attributes say, which may be smaller than the result.
  ValueId zeros = node.broadcast(node.scalar(0, node.dtype(x)), {count(small)});
  ValueId flat = node.add("scatter_elements", {{"axis", i64{0}}},
                          {zeros, node.reshape(at, {count(from)}), node.reshape(x, {count(from)})});
  ValueId made = node.reshape(flat, small);
  Ints before(from.size(), 0), after(from.size(), 0);
  for (std::size_t d = 0; d < from.size(); ++d) after[d] = shape[d] - small[d];
  node.result(0, shape == small ? made : padded(node, made, "constant", before, after, node.scalar(0, node.dtype(x))));
}

void reverse_sequence(NodeImport& node) {
  ValueId x = node.input(0);
  i64 time = node.axis(node.integer("time_axis", 0), node.rank(x));
  i64 batch = node.axis(node.integer("batch_axis", 1), node.rank(x));
  node.result(0, node.add("reverse_sequence", {{"time", time}, {"batch", batch}}, {x, node.input(1)}));
}

// A cache with new elements along one dimension, for each batch from a place of its own on.
void tensor_scatter(NodeImport& node) {
  ValueId past = node.input(0), update = node.input(1);
  i64 axis = node.axis(node.integer("axis", -2), node.rank(past));
  std::string mode = node.text("mode", "linear");
  if (mode != "linear" && mode != "circular") return node.fail(cat("mode `", mode, "` is not supported"));
  if (axis == 0) return node.fail("its axis is the batch");
  ValueId at = node.has_input(2) ? node.input(2) : node.broadcast(node.scalar(0, DType::I64), {node.extent(past, 0)});
  node.result(0,
              node.add("scatter_along", {{"axis", axis}, {"circular", i64{mode == "circular"}}}, {past, update, at}));
}

void grid_sample(NodeImport& node) {
  ValueId x = node.input(0);
  std::string mode = node.text("mode", "linear"), padding = node.text("padding_mode", "zeros");
  bool is_nearest = mode == "nearest", is_linear = mode == "linear" || mode == "bilinear";
  bool is_cubic = mode == "cubic" || mode == "bicubic";
  if (!is_nearest && !is_linear && !(is_cubic && padding == "zeros"))
    return node.fail(cat("mode `", mode, "` with padding `", padding, "` is not supported"));
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    return node.fail(cat("padding `", padding, "` is not supported"));
  node.result(0, node.add("grid_sample",
                          {{"taps", i64{is_nearest  ? 1
                                        : is_linear ? 2
                                                    : 4}},
                           {"padding", i64{padding == "zeros"    ? 0
                                           : padding == "border" ? 1
                                                                 : 2}},
                           {"corners", node.integer("align_corners", 0)}},
                          {x, node.input(1)}));
}

void columns_to_image(NodeImport& node) {
  Ints image = node.known_integers(1), block = node.known_integers(2);
  std::size_t rank = image.size();
  Ints pads = node.integers("pads", Ints(2 * rank, 0)), strides = node.integers("strides", Ints(rank, 1)),
       dilations = node.integers("dilations", Ints(rank, 1));
  bool fits = block.size() == rank && pads.size() == 2 * rank && strides.size() == rank && dilations.size() == rank;
  if (!fits || std::ranges::any_of(strides, [](i64 stride) { return stride < 1; }))
    return node.fail("its attributes are not for this number of dimensions");
  auto half = static_cast<std::ptrdiff_t>(rank);
  node.result(0, node.add("columns_to_image",
                          {{"strides", strides},
                           {"before", Ints(pads.begin(), pads.begin() + half)},
                           {"after", Ints(pads.begin() + half, pads.end())},
                           {"dilations", dilations},
                           {"W", block},
                           {"S", image}},
                          {node.input(0)}));
}

}  // namespace

void add_places(Converters& table) {
  table["Pad"] = pad;
  table["CenterCropPad"] = center_crop_pad;
  table["Scatter"] = table["ScatterElements"] = scatter_elements;
  table["ScatterND"] = scatter_nd;
  table["MaxUnpool"] = max_unpool;
  table["ReverseSequence"] = reverse_sequence;
  table["TensorScatter"] = tensor_scatter;
  table["GridSample"] = grid_sample;
  table["Col2Im"] = columns_to_image;
}

}  // namespace tw::graph::onnx
