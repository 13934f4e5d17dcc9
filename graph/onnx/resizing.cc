// Resize and Upsample: one dimension after the other, each element a weighted sum of elements of X that are known
// beforehand.
#include <algorithm>
#include <array>
#include <cmath>

#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

// The most elements of a dimension: each has places and weights, which are data of the graph.
constexpr i64 kMostExtent = 1 << 20;

// Of one dimension.
struct Scaling {
  i64 from, to;
  double scale;  // what was asked for; `to` is rounded
};

struct Mode {
  std::string kind, coordinates, nearest;
  double cubic;
  bool leaves_out;  // what lies outside has no weight
};

// Where element `at` of the result lies in X.
double coordinate(const Mode& mode, const Scaling& s, double at) {
  if (mode.coordinates == "asymmetric") return at / s.scale;
  auto from = static_cast<double>(s.from);
  if (mode.coordinates == "align_corners") return at == 0 ? 0 : at * (from - 1) / (from * s.scale - 1);
  if (mode.coordinates == "pytorch_half_pixel" && s.to == 1) return 0;
  if (mode.coordinates == "tf_half_pixel_for_nn") return (at + 0.5) / s.scale;
  double cut = mode.coordinates == "half_pixel_symmetric" ? static_cast<double>(s.to) / (from * s.scale) : 1;
  return (at + 0.5) / s.scale - 0.5 + from / 2 * (1 - cut);
}

double rounded(const std::string& how, double x) {
  if (how == "floor") return std::floor(x);
  if (how == "ceil") return std::ceil(x);
  return how == "round_prefer_ceil" ? std::floor(x + 0.5) : std::ceil(x - 0.5);
}

// Keys' kernel.
double cubic_weight(double a, double distance) {
  double d = std::abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

struct Tap {
  i64 place;
  double weight;
};

// What makes one element of the result.
std::vector<Tap> taps(const Mode& mode, const Scaling& s, double at) {
  double x = coordinate(mode, s, at);
  auto inside = [&](double place) { return static_cast<i64>(std::clamp(place, 0.0, static_cast<double>(s.from - 1))); };
  if (mode.kind == "nearest") return {{inside(rounded(mode.nearest, x)), 1}};
  double first = std::floor(x), part = x - first;
  if (mode.kind == "linear") return {{inside(first), 1 - part}, {inside(first + 1), part}};
  std::vector<Tap> out;
  double sum = 0;
  for (int k = -1; k <= 2; ++k) {
    double place = first + k;
    bool is_out = mode.leaves_out && (place < 0 || place >= static_cast<double>(s.from));
    out.push_back({inside(place), is_out ? 0 : cubic_weight(mode.cubic, part - k)});
    sum += out.back().weight;
  }
  for (Tap& tap : out) tap.weight /= mode.leaves_out ? sum : 1;
  return out;
}

// Along one dimension: a sum of gathered elements times weights.
ValueId resized(NodeImport& node, ValueId x, std::size_t axis, const Mode& mode, const Scaling& s) {
  Ints shape = node.shape(x);
  shape[axis] = s.to;
  std::vector<std::vector<Tap>> of_each;
  for (i64 i = 0; i < s.to; ++i) of_each.push_back(taps(mode, s, static_cast<double>(i)));
  std::optional<ValueId> sum;
  for (std::size_t k = 0; k < of_each[0].size(); ++k) {
    HostArray places = HostArray::zeros(DType::I64, {s.to}), weights = HostArray::zeros(node.dtype(x), {s.to});
    for (i64 i = 0; i < s.to; ++i) {
      places.set(i, static_cast<double>(of_each[static_cast<std::size_t>(i)][k].place));
      weights.set(i, of_each[static_cast<std::size_t>(i)][k].weight);
    }
    ValueId part = node.add("gather", {{"axis", static_cast<i64>(axis)}}, {x, node.constant(std::move(places))});
    if (mode.kind == "nearest") return part;
    Ints along(shape.size(), 1);
    along[axis] = s.to;
    ValueId weight = node.broadcast(node.reshape(node.constant(std::move(weights)), along), shape);
    part = node.add("multiply", {}, {part, weight});
    sum = sum ? node.add("add", {}, {*sum, part}) : part;
  }
  return *sum;
}

constexpr std::array kCoordinates{"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                  "align_corners", "asymmetric",           "tf_half_pixel_for_nn"};

// Scales and sizes of the dimensions that are named, for all of them.
void spread_over_axes(NodeImport& node, const Ints& shape, std::vector<double>& scales, Ints& sizes) {
  if (!node.has("axes")) return;
  Ints axes = node.integers("axes"), all_sizes = shape;
  std::vector<double> all_scales(shape.size(), 1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    auto d = static_cast<std::size_t>(node.axis(axes[i], static_cast<i64>(shape.size())));
    if (i < scales.size()) all_scales[d] = scales[i];
    if (i < sizes.size()) all_sizes[d] = sizes[i];
  }
  if (scales.size() == axes.size()) scales = all_scales;
  if (sizes.size() == axes.size()) sizes = all_sizes;
}

// One scale for all dimensions that are named: the smallest or the largest that sizes ask for.
void keep_ratio(NodeImport& node, const Ints& shape, std::vector<double>& scales, Ints& sizes) {
  std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  if (sizes.size() != shape.size() || policy == "stretch") return;
  if (policy != "not_larger" && policy != "not_smaller")
    return node.fail(cat("policy `", policy, "` is not supported"));
  Ints axes = node.integers("axes");
  for (std::size_t d = 0; axes.empty() && d < shape.size(); ++d) axes.push_back(static_cast<i64>(d));
  double scale = 0;
  for (i64 axis : axes) {
    auto d = static_cast<std::size_t>(node.axis(axis, static_cast<i64>(shape.size())));
    if (sizes[d] < 1 || sizes[d] > kMostExtent)
      return node.fail(cat("dimension ", d, " would have the extent ", sizes[d]));
    double own = static_cast<double>(sizes[d]) / static_cast<double>(shape[d]);
    scale = scale == 0 ? own : policy == "not_larger" ? std::min(scale, own) : std::max(scale, own);
  }
  scales.assign(shape.size(), 1);
  for (i64 axis : axes) {
    auto d = static_cast<std::size_t>(node.axis(axis, static_cast<i64>(shape.size())));
    scales[d] = scale;
    sizes[d] = static_cast<i64>(std::floor(scale * static_cast<double>(shape[d]) + 0.5));
  }
}

void resize(NodeImport& node) {
  node.ignore({"extrapolation_value", "cubic_coeff_a", "nearest_mode", "exclude_outside", "keep_aspect_ratio_policy"});
  ValueId x = node.input(0);
  bool is_old = node.op() == "Upsample" || node.opset() < 11;
  Mode mode{node.text("mode", "nearest"),
            is_old ? "asymmetric" : node.text("coordinate_transformation_mode", "half_pixel"),
            is_old ? "floor" : node.text("nearest_mode", "round_prefer_floor"), node.real("cubic_coeff_a", -0.75),
            node.integer("exclude_outside", 0) != 0};
  if (mode.kind == "bilinear" || mode.kind == "trilinear") mode.kind = "linear";
  std::size_t at_scales = is_old ? 1 : 2;
  std::vector<double> scales;
  if (const proto::AttributeProto* given = node.find("scales"))
    scales.assign(given->floats().begin(), given->floats().end());
  if (node.has_input(at_scales)) scales = node.known_numbers(at_scales);
  Ints sizes = node.has_input(3) ? node.known_integers(3) : Ints(), shape = node.shape(x);
  spread_over_axes(node, shape, scales, sizes);
  bool is_whole = (scales.size() == shape.size() && sizes.empty()) || (sizes.size() == shape.size() && scales.empty());
  bool is_known = mode.kind == "nearest" || mode.kind == "linear" || mode.kind == "cubic";
  bool is_placed = std::ranges::find(kCoordinates, mode.coordinates) != kCoordinates.end();
  if (node.has_failed() || node.is_empty(x) || !is_whole || !is_known || !is_placed ||
      node.integer("antialias", 0) != 0)
    return node.fail("this kind of resizing is not supported");
  keep_ratio(node, shape, scales, sizes);
  ValueId made = x;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    auto from = static_cast<double>(shape[d]);
    double wanted = sizes.empty() ? std::floor(from * scales[d]) : static_cast<double>(sizes[d]);
    if (!(wanted >= 1 && wanted <= kMostExtent))
      return node.fail(
          cat("dimension ", d, " would have the extent ", wanted, "; at most ", kMostExtent, " is supported"));
    i64 to = static_cast<i64>(wanted);
    Scaling scaling{shape[d], to, scales.empty() ? static_cast<double>(to) / from : scales[d]};
    bool changes = to != shape[d] || scaling.scale != 1;
    if (changes) made = resized(node, made, d, mode, scaling);
    if (node.has_failed()) return;
  }
  node.result(0, made);
}

}  // namespace

void add_resizing(Converters& table) { table["Resize"] = table["Upsample"] = resize; }

}  // namespace tw::graph::onnx
