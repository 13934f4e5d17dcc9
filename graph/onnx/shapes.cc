// Operators that ask for shapes or bring elements to other places.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

HostArray integers(const Ints& values) {
  HostArray data = HostArray::zeros(DType::I64, {static_cast<i64>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) data.set(static_cast<i64>(i), static_cast<double>(values[i]));
  return data;
}

i64 product(const Ints& shape, std::size_t begin, std::size_t end) {
  i64 elements = 1;
  for (std::size_t d = begin; d < end; ++d) {
    if (__builtin_mul_overflow(elements, shape[d], &elements)) return 0;  // which no shape has
  }
  return elements;
}

void shape_of(NodeImport& node) {
  Ints shape = node.shape(node.input(0));
  auto rank = static_cast<i64>(shape.size());
  auto place = [&](i64 at) { return std::clamp<i64>(at < 0 ? at + rank : at, 0, rank); };
  i64 start = place(node.integer("start", 0)), end = std::max(start, place(node.integer("end", rank)));
  node.result(0, node.constant(integers({shape.begin() + start, shape.begin() + end})));
}

// 0 takes the extent of the input, -1 what is left.
void reshape(NodeImport& node) {
  ValueId x = node.input(0);
  const Ints shape = node.shape(x);
  Ints wanted = node.integers_of("shape", 1);
  bool takes_extents = node.integer("allowzero", 0) == 0;
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    if (wanted[d] == 0 && takes_extents && d < shape.size()) wanted[d] = shape[d];
  }
  auto open = std::ranges::find(wanted, -1);
  if (open != wanted.end()) {
    *open = 1;
    i64 others = product(wanted, 0, wanted.size());
    if (others > 0) *open = product(shape, 0, shape.size()) / others;
  }
  node.result(0, node.reshape(x, wanted));
}

void flatten(NodeImport& node) {
  ValueId x = node.input(0);
  const Ints shape = node.shape(x);
  i64 axis = node.integer("axis", 1);
  auto at = static_cast<std::size_t>(axis < 0 ? axis + node.rank(x) : axis);
  if (at > shape.size()) return node.fail("the axis is beyond the rank");
  node.result(0, node.reshape(x, {product(shape, 0, at), product(shape, at, shape.size())}));
}

void squeeze(NodeImport& node) {
  ValueId x = node.input(0);
  Ints axes = node.integers_of("axes", 1), kept;
  const Ints shape = node.shape(x);
  for (i64& axis : axes) axis = node.axis(axis, node.rank(x));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    bool goes = axes.empty() ? shape[d] == 1 : std::ranges::count(axes, static_cast<i64>(d)) > 0;
    if (!goes) kept.push_back(shape[d]);
  }
  node.result(0, node.reshape(x, kept));
}

void unsqueeze(NodeImport& node) {
  ValueId x = node.input(0);
  Ints axes = node.integers_of("axes", 1), shape = node.shape(x);
  i64 rank = node.rank(x) + static_cast<i64>(axes.size());
  for (i64& axis : axes) axis = node.axis(axis, rank);
  std::ranges::sort(axes);
  for (i64 axis : axes) {
    if (axis > static_cast<i64>(shape.size())) return node.fail("a dimension is given twice");
    shape.insert(shape.begin() + axis, 1);
  }
  node.result(0, node.reshape(x, shape));
}

void transpose(NodeImport& node) {
  ValueId x = node.input(0);
  Ints order(static_cast<std::size_t>(node.rank(x)));
  std::iota(order.rbegin(), order.rend(), 0);
  Ints given = node.integers("perm", order);
  if (!std::ranges::is_permutation(given, order)) return node.fail("its order is not one of the dimensions");
  node.result(0, node.transpose(x, given));
}

void expand(NodeImport& node) {
  ValueId x = node.input(0);
  Ints wanted = node.known_integers(1);
  const Ints own = node.shape(x);
  while (wanted.size() < own.size()) wanted.insert(wanted.begin(), 1);
  for (std::size_t d = 0; d < own.size(); ++d) {
    i64& extent = wanted[wanted.size() - own.size() + d];
    if (extent == 1) extent = own[d];
  }
  node.result(0, node.broadcast(x, wanted));
}

void concat(NodeImport& node) {
  ValueId all = node.input(0);
  i64 axis = node.axis(node.integer("axis", 1), node.rank(all));
  for (std::size_t i = 1; i < node.inputs(); ++i) all = concatenated(node, all, node.input(i), axis);
  node.result(0, all);
}

void split(NodeImport& node, std::size_t outputs) {
  node.ignore({"num_outputs"});  // those that the node has
  if (outputs == 0) return node.fail("it has no outputs");
  ValueId x = node.input(0);
  i64 axis = node.axis(node.integer("axis", 0), node.rank(x)), extent = node.extent(x, axis);
  Ints sizes = node.integers_of("split", 1);
  i64 each = (extent + static_cast<i64>(outputs) - 1) / static_cast<i64>(outputs), start = 0;
  for (std::size_t i = 0; i < outputs; ++i) {
    i64 size = sizes.empty() ? std::min(each, extent - start) : i < sizes.size() ? sizes[i] : 0;
    if (size < 0 || size > extent - start) return node.fail("its parts are not those of the dimension");
    node.result(i, part(node, x, axis, start, size));
    start += size;
  }
}

void slice(NodeImport& node) {
  ValueId x = node.input(0);
  Ints shape = node.shape(x), start(shape.size(), 0), step(shape.size(), 1);
  Ints starts = node.integers_of("starts", 1), ends = node.integers_of("ends", 2), axes = node.integers_of("axes", 3);
  Ints steps = node.has_input(4) ? node.known_integers(4) : Ints(starts.size(), 1);
  for (std::size_t i = axes.size(); i < starts.size(); ++i) axes.push_back(static_cast<i64>(i));
  if (ends.size() != starts.size() || steps.size() != starts.size())
    return node.fail("starts, ends and steps differ in number");
  for (std::size_t i = 0; i < starts.size(); ++i) {
    auto d = static_cast<std::size_t>(node.axis(axes[i], node.rank(x)));
    if (node.has_failed() || steps[i] == 0) return node.fail("a step is 0");
    i64 extent = node.shape(x)[d], by = steps[i];
    i64 low = by > 0 ? 0 : -1, high = by > 0 ? extent : extent - 1;  // where an end may be
    auto place = [&](i64 at, i64 least, i64 most) { return std::clamp(at < 0 ? at + extent : at, least, most); };
    start[d] = place(starts[i], 0, high), step[d] = by;
    i64 end = ends[i] < -extent - (by < 0) ? low : place(ends[i], low, std::max(high, low));
    if (by < 0 && ends[i] < -extent) end = -1;
    shape[d] = by > 0 ? (end - start[d] + by - 1) / by : (start[d] - end - by - 1) / -by;
    shape[d] = std::max<i64>(shape[d], 0);
  }
  node.result(0, sliced(node, x, start, step, shape));
}

void gather(NodeImport& node) {
  ValueId x = node.input(0), index = node.input(1);
  i64 axis = node.axis(node.integer("axis", 0), node.rank(x));
  if (!node.is_empty(index) || node.has_failed()) return node.result(0, gathered(node, x, index, axis));
  Ints shape = node.shape(x), places = node.shape(index);
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, places.begin(), places.end());
  node.result(0, node.nothing(shape, node.dtype(x)));
}

void gather_elements(NodeImport& node) {
  ValueId x = node.input(0);
  node.result(0, gathered_elements(node, x, node.input(1), node.axis(node.integer("axis", 0), node.rank(x))));
}

void gather_nd(NodeImport& node) {
  ValueId x = node.input(0), index = node.input(1);
  i64 batch = node.integer("batch_dims", 0), depth = node.extent(index, node.rank(index) - 1);
  if (batch < 0 || node.rank(index) < 1 || depth > node.rank(x) - batch)
    return node.fail("its indices are for another number of dimensions");
  Ints dimensions(static_cast<std::size_t>(depth));
  std::iota(dimensions.begin(), dimensions.end(), batch);
  node.check_indices(index, node.shape(x), dimensions);
  node.result(0, node.add("gather_nd", {{"batch", batch}}, {x, index}));
}

void top_k(NodeImport& node) {
  node.ignore({"sorted"});
  ValueId x = node.input(0);
  Ints count = node.has_input(1) ? node.known_integers(1) : Ints{node.integer("k", 0)};
  if (count.size() != 1) return node.fail("its number of elements is no number");
  std::vector<ValueId> made = node.add_several("top_k",
                                               {{"axis", node.axis(node.integer("axis", -1), node.rank(x))},
                                                {"count", count[0]},
                                                {"largest", node.integer("largest", 1)}},
                                               {x});
  node.result(0, made[0]);
  node.result(1, made.back());
}

void triangle(NodeImport& node) {
  Ints offset = node.has_input(1) ? node.known_integers(1) : Ints{0};
  if (offset.size() != 1) return node.fail("its diagonal is no number");
  ValueId x = node.input(0);
  i64 upper = node.integer("upper", 1);
  node.result(0, node.is_empty(x) ? x : node.add("triangle", {{"upper", upper}, {"offset", offset[0]}}, {x}));
}

void one_hot(NodeImport& node) {
  ValueId index = node.input(0);
  std::vector<double> depth = node.known_numbers(1);
  if (depth.size() != 1 || !(depth[0] >= 1 && depth[0] <= 1 << 24))
    return node.fail("its depth is no number of classes");
  if (is_float(node.dtype(index))) index = node.cast(index, DType::I64);
  i64 axis = node.axis(node.integer("axis", -1), node.rank(index) + 1);
  node.result(0, node.add("one_hot", {{"axis", axis}, {"depth", static_cast<i64>(depth[0])}}, {index, node.input(2)}));
}

void tile(NodeImport& node) {
  ValueId x = node.input(0);
  Ints repeats = node.known_integers(1), shape = node.shape(x);
  if (repeats.size() != shape.size()) return node.fail("it needs a number for each dimension");
  Ints apart, wide, out;  // [1, S0, 1, S1, ..] -> [R0, S0, R1, S1, ..]
  for (std::size_t d = 0; d < shape.size(); ++d) {
    apart.insert(apart.end(), {1, shape[d]});
    wide.insert(wide.end(), {repeats[d], shape[d]});
    out.push_back(repeats[d] * shape[d]);
  }
  node.result(0, node.reshape(node.broadcast(node.reshape(x, apart), wide), out));
}

// Blocks of channels become blocks of space, and back.
void depth_to_space(NodeImport& node) {
  ValueId x = node.input(0);
  const Ints s = node.shape(x);
  i64 b = node.integer("blocksize", 1);
  // Divided twice: the square of a block may overflow.
  if (s.size() != 4 || b < 1 || s[1] % b != 0 || s[1] / b % b != 0)
    return node.fail("its channels do not divide into blocks");
  bool columns_last = node.text("mode", "DCR") == "CRD";
  i64 c = s[1] / b / b;
  ValueId apart = node.reshape(x, columns_last ? Ints{s[0], c, b, b, s[2], s[3]} : Ints{s[0], b, b, c, s[2], s[3]});
  ValueId moved = node.transpose(apart, columns_last ? Ints{0, 1, 4, 2, 5, 3} : Ints{0, 3, 4, 1, 5, 2});
  node.result(0, node.reshape(moved, {s[0], c, s[2] * b, s[3] * b}));
}

void space_to_depth(NodeImport& node) {
  ValueId x = node.input(0);
  const Ints s = node.shape(x);
  i64 b = node.integer("blocksize", 1);
  if (s.size() != 4 || b < 1 || s[2] % b != 0 || s[3] % b != 0) return node.fail("its rows do not divide into blocks");
  ValueId apart = node.reshape(x, {s[0], s[1], s[2] / b, b, s[3] / b, b});
  node.result(0, node.reshape(node.transpose(apart, {0, 3, 5, 1, 2, 4}), {s[0], s[1] * b * b, s[2] / b, s[3] / b}));
}

void constant(NodeImport& node) {
  if (const proto::AttributeProto* value = node.find("value")) {
    if (std::optional<HostArray> data = node.array(*value)) node.result(0, node.constant(std::move(*data)));
    return;
  }
  if (node.has("value_float")) return node.result(0, node.scalar(node.real("value_float", 0), DType::F32));
  if (node.has("value_int"))
    return node.result(0, node.scalar(static_cast<double>(node.integer("value_int", 0)), DType::I64));
  if (node.has("value_ints")) return node.result(0, node.constant(integers(node.integers("value_ints"))));
  if (const proto::AttributeProto* floats = node.find("value_floats")) {
    HostArray data = HostArray::zeros(DType::F32, {floats->floats_size()});
    for (int i = 0; i < floats->floats_size(); ++i) data.set(i, floats->floats(i));
    return node.result(0, node.constant(std::move(data)));
  }
  node.fail("its kind of value is not supported");
}

void eye_like(NodeImport& node) {
  ValueId x = node.input(0);
  const Ints shape = node.shape(x);
  std::optional<DType> type = node.has("dtype") ? dtype_of(static_cast<int>(node.integer("dtype", 1))) : node.dtype(x);
  if (shape.size() != 2 || !type || shape[0] > 1 << 12 || shape[1] > 1 << 12)
    return node.fail("this kind of matrix is not supported");
  HostArray data = HostArray::zeros(*type, shape);
  i64 offset = node.integer("k", 0);
  for (i64 r = 0; r < shape[0]; ++r) {
    if (r + offset >= 0 && r + offset < shape[1]) data.set(r * shape[1] + r + offset, 1);
  }
  node.result(0, node.constant(std::move(data)));
}

void constant_of_shape(NodeImport& node) {
  Ints shape = node.known_integers(0);
  HostArray value = HostArray::zeros(DType::F32, {1});
  if (const proto::AttributeProto* given = node.find("value")) {
    std::optional<HostArray> data = node.array(*given);
    if (!data) return;
    value = std::move(*data);
  }
  node.result(0, node.broadcast(node.reshape(node.constant(std::move(value)), {}), shape));
}

void range(NodeImport& node) {
  std::vector<double> from = node.known_numbers(0), to = node.known_numbers(1), by = node.known_numbers(2);
  if (from.size() != 1 || to.size() != 1 || by.size() != 1 || by[0] == 0)
    return node.fail("it needs three numbers that are known");
  double count = std::max(0.0, std::ceil((to[0] - from[0]) / by[0]));
  if (count > 1 << 24) return node.fail("it is too large");
  HostArray data = HostArray::zeros(node.dtype(node.input(0)), {static_cast<i64>(count)});
  for (i64 i = 0; i < data.elements(); ++i) data.set(i, from[0] + static_cast<double>(i) * by[0]);
  node.result(0, node.constant(std::move(data)));
}

}  // namespace

ValueId sliced(NodeImport& node, ValueId x, const Ints& start, const Ints& step, const Ints& shape) {
  if (std::ranges::count(shape, 0) > 0) return node.nothing(shape, node.dtype(x));
  for (std::size_t d = 0; d < shape.size(); ++d) {
    i64 last = 0, extent = node.extent(x, static_cast<i64>(d));
    bool fits = !__builtin_mul_overflow(shape[d] - 1, step[d], &last) && !__builtin_add_overflow(last, start[d], &last);
    if (!fits || start[d] < 0 || start[d] >= extent || last < 0 || last >= extent)
      return node.fail("a part of an operand lies outside of it"), x;
  }
  return node.add("slice", {{"start", start}, {"step", step}, {"R", shape}}, {x});
}

ValueId part(NodeImport& node, ValueId x, i64 axis, i64 start, i64 extent) {
  Ints shape = node.shape(x), begin(shape.size(), 0), step(shape.size(), 1);
  if (axis >= node.rank(x)) return node.fail("its operands have too few dimensions"), x;
  begin[static_cast<std::size_t>(axis)] = start;
  shape[static_cast<std::size_t>(axis)] = extent;
  return start == 0 && shape == node.shape(x) ? x : sliced(node, x, begin, step, shape);
}

ValueId concatenated(NodeImport& node, ValueId a, ValueId b, i64 axis) {
  auto is_left_out = [&](ValueId value) { return node.extent(value, axis) == 0; };
  if (node.rank(a) == node.rank(b) && (is_left_out(a) || is_left_out(b))) return is_left_out(a) ? b : a;
  return node.add("concat", {{"axis", axis}}, {a, b});
}

ValueId gathered(NodeImport& node, ValueId x, ValueId index, i64 axis) {
  if (node.rank(x) > axis) node.check_indices(index, node.shape(x), {axis});
  return node.add("gather", {{"axis", axis}}, {x, index});
}

ValueId gathered_elements(NodeImport& node, ValueId x, ValueId index, i64 axis) {
  if (node.rank(x) > axis) node.check_indices(index, node.shape(x), {axis});
  return node.add("gather_elements", {{"axis", axis}}, {x, index});
}

void add_shapes(Converters& table) {
  table["Shape"] = shape_of;
  table["Size"] = [](NodeImport& node) {
    const Ints shape = node.shape(node.input(0));
    node.result(0, node.scalar(static_cast<double>(product(shape, 0, shape.size())), DType::I64));
  };
  table["Reshape"] = reshape;
  table["Flatten"] = flatten;
  table["Squeeze"] = squeeze;
  table["Unsqueeze"] = unsqueeze;
  table["Transpose"] = transpose;
  table["Expand"] = expand;
  table["Concat"] = concat;
  table["Split"] = [](NodeImport& node) { split(node, node.outputs()); };
  table["Slice"] = slice;
  table["Gather"] = gather;
  table["GatherElements"] = gather_elements;
  table["GatherND"] = gather_nd;
  table["TopK"] = top_k;
  table["Trilu"] = triangle;
  table["OneHot"] = one_hot;
  table["Tile"] = tile;
  table["DepthToSpace"] = depth_to_space;
  table["SpaceToDepth"] = space_to_depth;
  table["Constant"] = constant;
  table["EyeLike"] = eye_like;
  table["ConstantOfShape"] = constant_of_shape;
  table["Range"] = range;
}

}  // namespace tw::graph::onnx
