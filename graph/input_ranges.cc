#include "graph/input_ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

namespace tw::graph {
namespace {

constexpr i64 kAnywhere = std::numeric_limits<i64>::max();
constexpr double kLargeFactor = 1000;
constexpr double kFarthest = 1 << 30;  // of constants that integers are compared with

// What two ranges have in common; the first one if that is nothing.
std::optional<IndexRange> common(const std::optional<IndexRange>& a, const std::optional<IndexRange>& b) {
  if (!a || !b) return a ? a : b;
  IndexRange both{std::max(a->lowest, b->lowest), std::min(a->below, b->below)};
  return both.lowest < both.below ? both : *a;
}

// What becomes of a value, in all places where it is read.
struct Uses {
  i64 places = kAnywhere;              // the least extent that it looks up
  i64 lowest = 0;                      // of the places; what is below hides all
  std::optional<IndexRange> compared;  // for which a comparison with a constant is both true and false
  bool is_shifted = false;             // an index is computed of it, or it is multiplied by a large factor
  bool is_number = false;              // something is computed of it
  bool is_float = false;               // it becomes one

  bool decides_place() const { return places != kAnywhere || is_shifted; }
  void join(const Uses& other) {
    places = std::min(places, other.places);
    lowest = std::max(lowest, other.lowest);
    compared = common(compared, other.compared);
    is_shifted |= other.is_shifted;
    is_number |= other.is_number;
    is_float |= other.is_float;
  }
};

// Operators whose first results are elements of their operands, indices apart.
bool is_move(std::string_view op) {
  static const std::set<std::string_view> moves = {
      "copy",         "cast",       "broadcast",        "transpose", "reshape",          "slice",         "pad",
      "pad_edge",     "concat",     "gather",           "gather_nd", "gather_elements",  "pad_mirrored",  "clamp",
      "pad_repeated", "scatter_nd", "scatter_elements", "where",     "reverse_sequence", "scatter_along", "minimum",
      "maximum",      "top_k"};
  return moves.contains(op);
}

// Results are places in an operand, whatever it holds.
bool is_search(std::string_view op) { return op == "argmax" || op == "argmin" || op == "hardmax"; }

class InputRanges {
 public:
  explicit InputRanges(const Graph& graph) : graph_(graph), makers_(makers_of(graph)), uses_(graph.values.size()) {}

  std::vector<IndexRange> run() {
    for (ValueId output : graph_.outputs) uses_[output].is_number = true;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      for (std::size_t i = 0; i < node->inputs.size(); ++i) uses_[node->inputs[i]].join(uses_by(*node, i));
    }
    std::vector<IndexRange> ranges;
    for (ValueId input : graph_.inputs) ranges.push_back(range_of(type(input).dtype, uses_[input]));
    return ranges;
  }

 private:
  const OperandType& type(ValueId value) const { return graph_.values[value].type; }
  const std::vector<i64>& shape(const Node& node, std::size_t operand) const {
    return type(node.inputs[operand]).shape;
  }

  static IndexRange range_of(DType dtype, const Uses& uses) {
    if (is_float(dtype)) return {};
    i64 most = dtype == DType::I8 ? 127 : dtype == DType::U8 ? 255 : kAnywhere - 1;
    if (uses.places != kAnywhere && !uses.is_shifted) {
      i64 below = std::clamp<i64>(uses.places, 1, most + 1);
      return {std::min(uses.lowest, below - 1), below};
    }
    if (uses.compared && !uses.is_shifted && !uses.is_number) {
      i64 least = dtype == DType::I8 ? -128 : dtype == DType::U8 ? 0 : -kAnywhere;
      return *common(IndexRange{least, most + 1}, uses.compared);
    }
    if (dtype == DType::Bool || uses.is_shifted || !uses.is_number) return {0, uses.places == 1 ? 1 : 2};
    if (dtype == DType::I8 || dtype == DType::U8) return {dtype == DType::I8 ? -128 : 0, most + 1};
    return uses.is_float ? IndexRange{-8, 8} : IndexRange{-100, 101};
  }

  // How many values the operand may take as an index; kAnywhere if it is none.
  i64 places_of(const Node& node, std::size_t operand) const {
    if (operand == 0) return node.op == "one_hot" ? integer(node.arguments, "depth") : kAnywhere;
    auto axis = static_cast<std::size_t>(integer(node.arguments, "axis"));
    if (node.op == "scatter_along") {
      i64 ahead = integer(node.arguments, "circular") == 1 ? 1 : shape(node, 1)[axis];  // that have to lie inside
      return operand == 2 ? shape(node, 0)[axis] - ahead + 1 : kAnywhere;
    }
    if (operand != 1) return kAnywhere;
    if (node.op == "up_to_length") return shape(node, 0)[3] + 1;
    if (node.op == "gather_nd" || node.op.starts_with("scatter_nd")) return least_place(node);
    if (node.op == "gather" || node.op == "gather_elements" || node.op.starts_with("scatter_elements"))
      return shape(node, 0)[axis];
    return node.op == "reverse_sequence" ? shape(node, 0)[static_cast<std::size_t>(integer(node.arguments, "time"))] + 1
                                         : kAnywhere;
  }

  // The whole numbers for which the comparison with a constant is true at some of its elements, and false at others; of
  // one number, the two around it.
  std::optional<IndexRange> compared_with(const Node& node, std::size_t operand) const {
    bool is_less = node.op == "less", is_above = is_less == (operand == 1);  // c < n and n <= c: above the least c
    if (!is_less && node.op != "less_equal") return std::nullopt;
    const HostArray* constant = constant_behind(node.inputs[1 - operand]);
    std::optional<double> least, largest;
    for (i64 i = 0; constant && i < constant->elements(); ++i) {
      double c = constant->get(i);
      if (!(std::abs(c) <= kFarthest)) continue;
      least = std::min(c, least.value_or(c)), largest = std::max(c, largest.value_or(c));
    }
    if (!least) return std::nullopt;
    auto whole = [&](double c) { return static_cast<i64>(is_above ? std::floor(c) : std::ceil(c)); };
    i64 low = whole(*least), high = whole(*largest);
    if (low == high) --low, ++high;
    return is_above ? IndexRange{low + 1, high + 1} : IndexRange{low, high};
  }

  // The smallest of the dimensions that an index with several coordinates looks up.
  i64 least_place(const Node& node) const {
    const std::vector<i64>& extents = shape(node, 0);
    i64 first = integer(node.arguments, "batch"), least = kAnywhere;
    for (i64 d = first; d < first + shape(node, 1).back(); ++d)
      least = std::min(least, extents[static_cast<std::size_t>(d)]);
    return least;
  }

  Uses uses_by(const Node& node, std::size_t operand) const {
    if (i64 places = places_of(node, operand); places != kAnywhere)
      return {.places = places, .lowest = node.op == "up_to_length"};
    if (std::optional<IndexRange> range = compared_with(node, operand)) return {.compared = range};
    if (node.op == "equal" || node.op == "cast_to_bool" || type(node.inputs[operand]).dtype == DType::Bool) return {};
    Uses of_result = uses_[node.outputs[0]];
    of_result.is_float |= is_float(type(node.outputs[0]).dtype);
    if (is_move(node.op)) return of_result;
    bool is_place = !is_search(node.op) &&
                    std::ranges::any_of(node.outputs, [&](ValueId output) { return uses_[output].decides_place(); });
    return {
        .is_shifted = is_place || has_large_factor(node, operand), .is_number = true, .is_float = of_result.is_float};
  }

  bool has_large_factor(const Node& node, std::size_t operand) const {
    if (node.op != "multiply") return false;
    const HostArray* factor = constant_behind(node.inputs[1 - operand]);
    for (i64 i = 0; factor && i < factor->elements(); ++i) {
      if (!(std::abs(factor->get(i)) < kLargeFactor)) return true;
    }
    return false;
  }

  // The constant whose elements these are; null if there is none.
  const HostArray* constant_behind(ValueId value) const {
    for (const Node* node = makers_[value]; node && node->inputs.size() == 1 && is_move(node->op);
         node = makers_[value])
      value = node->inputs[0];
    return graph_.values[value].data.get();
  }

  const Graph& graph_;
  const std::vector<const Node*> makers_;
  std::vector<Uses> uses_;
};

}  // namespace

std::vector<IndexRange> input_ranges(const Graph& graph) { return InputRanges(graph).run(); }

std::vector<KernelArgument> input_arguments(const Graph& graph) {
  std::vector<KernelArgument> arguments;
  std::vector<IndexRange> ranges = input_ranges(graph);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const Value& value = graph.values[graph.inputs[i]];
    arguments.push_back(
        {value.name, ArgumentRole::Input, value.type.dtype, value.type.shape, bytes_of(value.type), ranges[i]});
  }
  return arguments;
}

}  // namespace tw::graph
