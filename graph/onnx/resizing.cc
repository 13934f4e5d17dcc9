// Resize and Upsample: one dimension after the other, each element a weighted sum of elements of X that are known
// beforehand.
#include <algorithm>
#include <cmath>

#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

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
  return (at + 0.5) / s.scale - 0.5;
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

void resize(NodeImport& node) {
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
  bool is_whole = (scales.size() == shape.size()) != (sizes.size() == shape.size());
  bool is_known = mode.kind == "nearest" || mode.kind == "linear" || mode.kind == "cubic";
  bool is_of_region = mode.coordinates == "tf_crop_and_resize";
  if (!is_whole || !is_known || is_of_region || node.has("axes") || node.integer("antialias", 0) != 0)
    return node.fail("this kind of resizing is not supported");
  ValueId made = x;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    auto from = static_cast<double>(shape[d]);
    i64 to = sizes.empty() ? static_cast<i64>(std::floor(from * scales[d])) : sizes[d];
    if (to < 1 || to > 1 << 24) return node.fail(cat("dimension ", d, " would have the extent ", to));
    Scaling scaling{shape[d], to, sizes.empty() ? scales[d] : static_cast<double>(to) / from};
    bool changes = to != shape[d] || scaling.scale != 1;
    if (changes) made = resized(node, made, d, mode, scaling);
  }
  node.result(0, made);
}

}  // namespace

void add_resizing(Converters& table) { table["Resize"] = table["Upsample"] = resize; }

}  // namespace tw::graph::onnx
