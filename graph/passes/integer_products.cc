// A product of integers with scales is the product of the integers, times the scales, as long as all terms of a sum
// have the same ones. Operands are read in the narrowest type that holds them: bytes without a zero point to
// subtract stay bytes, so do constants that fit.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "graph/passes/passes.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

// Sums below this in magnitude fit into i32.
constexpr double kSumsBelow = 2147483648.0;
// Nodes behind each other that are looked through.
constexpr int kMostSteps = 64;

struct Range {
  double low = 0, high = 0;

  double magnitude() const { return std::max(std::abs(low), std::abs(high)); }
};

// One number for all of a value, or one for each place of a dimension. The numbers are `count` elements of `source`:
// element 0, then every `apart`-th. Place p has number p / alike % count, since dimensions may have been joined.
struct Numbers {
  ValueId source = 0;
  std::optional<std::size_t> axis;
  i64 count = 1, apart = 1, alike = 1;
};

// Integers times scales, then moved: broadcast, transposed, reshaped.
struct Dequantized {
  ValueId integers = 0;
  std::optional<Numbers> scale;    // along a dimension of what the movements give; nothing if it is 1
  std::vector<const Node*> moves;  // in order
};

i64 elements_behind(const Ints& shape, std::size_t axis) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end(), i64{1},
                         std::multiplies<>());
}

// Nothing if not all are integers, or there are none.
std::optional<Range> range_in(const HostArray& data) {
  if (data.elements() == 0) return std::nullopt;
  Range range{data.get(0), data.get(0)};
  for (i64 e = 0; e < data.elements(); ++e) {
    double x = data.get(e);
    if (!(x == std::floor(x) && std::abs(x) < kSumsBelow)) return std::nullopt;
    range = {std::min(range.low, x), std::max(range.high, x)};
  }
  return range;
}

// Does the array repeat `count` numbers periodically, each `apart` times in a row?
bool has_numbers(const HostArray& data, i64 count, i64 apart) {
  for (i64 e = 0; e < data.elements(); ++e) {
    if (data.get(e) != data.get(e / apart % count * apart)) return false;
  }
  return true;
}

HostArray narrowest(const HostArray& integers) {
  Range range = range_in(integers).value_or(Range{-kSumsBelow, kSumsBelow});
  DType type = DType::I32;
  if (range.low >= 0 && range.high <= 255) type = DType::U8;
  if (range.low >= -128 && range.high <= 127) type = DType::I8;
  HostArray made = HostArray::zeros(type, integers.shape);
  for (i64 e = 0; e < made.elements(); ++e) made.set(e, integers.get(e));
  return made;
}

bool is_byte(DType type) { return type == DType::I8 || type == DType::U8; }
bool is_move(const Node& node) { return node.op == "broadcast" || node.op == "transpose" || node.op == "reshape"; }

class IntegerProducts {
 public:
  explicit IntegerProducts(const Graph& graph)
      : graph_(graph), copy_(graph), makers_(makers_of(graph)), ranges_(graph.values.size()) {}

  Graph run() {
    find_ranges();
    for (const Node& node : graph_.nodes) {
      std::vector<Dequantized> operands = operands_of(node);
      if (operands.empty())
        copy_.copy(node);
      else
        copy_.set(node.outputs[0], product(node, operands));
    }
    return copy_.finish();
  }

 private:
  const Ints& shape(ValueId value) const { return graph_.values[value].type.shape; }
  DType dtype(ValueId value) const { return graph_.values[value].type.dtype; }
  const HostArray* data(ValueId value) const { return graph_.values[value].data.get(); }
  const std::string& name(ValueId value) const { return graph_.values[value].name; }

  // Both operands of a product that can be one of integers, with their scales along dimensions of the result. None if
  // it cannot.
  std::vector<Dequantized> operands_of(const Node& node) const {
    bool is_matmul = node.op == "matmul";
    auto is_type = [](const WorkloadArgument& argument) { return std::holds_alternative<DType>(argument.value); };
    bool has_types = std::ranges::any_of(node.arguments, is_type);  // that somebody chose
    if ((!is_matmul && node.op != "conv") || has_types) return {};
    const Ints& right = shape(node.inputs[1]);
    double largest = static_cast<double>(is_matmul ? right[right.size() - 2] : elements_behind(right, 0));
    std::vector<Dequantized> operands;
    for (std::size_t n : {0u, 1u}) {
      if (dtype(node.inputs[n]) != DType::F32) return {};
      std::optional<Dequantized> operand = dequantized(node.inputs[n]);
      if (!operand) return {};
      if (operand->scale && operand->scale->axis) {
        operand->scale->axis = axis_of_result(node, n, *operand->scale->axis);
        if (!operand->scale->axis) return {};
      }
      largest *= ranges_[operand->integers]->magnitude();
      operands.push_back(*operand);
    }
    return largest < kSumsBelow ? operands : std::vector<Dequantized>();
  }

  // Which dimension of the result a dimension of operand n becomes; nothing if sums go over any of its places.
  std::optional<std::size_t> axis_of_result(const Node& node, std::size_t n, std::size_t axis) const {
    if (node.op == "conv") return axis == 0 ? std::optional(n) : std::nullopt;
    std::size_t summed = shape(node.outputs[0]).size() - (n == 0 ? 1 : 2);
    return axis == summed ? std::nullopt : std::optional(axis);
  }

  // `steps`: movements behind it.
  std::optional<Dequantized> dequantized(ValueId value, int steps = 0) const {
    const Node* maker = makers_[value];
    if (maker && is_move(*maker)) {
      if (steps == kMostSteps) return std::nullopt;
      std::optional<Dequantized> made = dequantized(maker->inputs[0], steps + 1);
      if (!made) return std::nullopt;
      made->moves.push_back(maker);
      if (!made->scale || !made->scale->axis) return made;
      made->scale = behind(*maker, *made->scale);
      return made->scale ? made : std::nullopt;
    }
    if (std::optional<ValueId> integers = integers_of(value)) return Dequantized{*integers, std::nullopt, {}};
    if (!maker || maker->op != "multiply") return std::nullopt;
    for (std::size_t n : {0u, 1u}) {
      std::optional<ValueId> integers = integers_of(maker->inputs[n]);
      std::optional<Numbers> scale = integers ? numbers_of(maker->inputs[1 - n]) : std::nullopt;
      if (scale) return Dequantized{*integers, scale, {}};
    }
    return std::nullopt;
  }

  // Several numbers along a dimension, as they stand behind a movement; nothing if they are not along one dimension
  // there.
  std::optional<Numbers> behind(const Node& move, Numbers numbers) const {
    const Ints &from = shape(move.inputs[0]), &to = shape(move.outputs[0]);
    std::size_t& axis = *numbers.axis;
    if (move.op == "broadcast") return axis += to.size() - from.size(), numbers;
    if (move.op == "transpose") {
      const Ints& order = *integers(move.arguments, "order");
      axis = static_cast<std::size_t>(std::ranges::find(order, static_cast<i64>(axis)) - order.begin());
      return numbers;
    }
    if (elements_of(graph_.values[move.outputs[0]].type) == 0) return std::nullopt;
    // In row-major order `in_a_row` elements have the same number, and all numbers come again after `all` elements.
    i64 in_a_row = elements_behind(from, axis) * numbers.alike, all = in_a_row * numbers.count;
    for (std::size_t d = 0; d < to.size(); ++d) {
      i64 own = elements_behind(to, d);
      if (in_a_row % own != 0 || own * to[d] % all != 0) continue;
      axis = d, numbers.alike = in_a_row / own;
      return numbers;
    }
    return std::nullopt;
  }

  // The integers that a value in f32 is, if it is known between which numbers they are.
  std::optional<ValueId> integers_of(ValueId value) const {
    const Node* maker = makers_[value];
    if (maker && maker->op != "cast") return std::nullopt;
    if (maker) value = maker->inputs[0];
    bool is_whole = is_byte(dtype(value)) || dtype(value) == DType::I32;
    if (!is_whole && !(dtype(value) == DType::F32 && data(value))) return std::nullopt;
    return ranges_[value] ? std::optional(without_zero(value)) : std::nullopt;
  }

  // The same numbers before a zero point of 0 was taken from them and bytes became i32. What is bytes itself is not
  // looked through: bytes of another type are other numbers.
  ValueId without_zero(ValueId value) const {
    while (!is_byte(dtype(value))) {
      const Node* maker = makers_[value];
      bool is_cast = maker && maker->op == "cast" && is_byte(dtype(maker->inputs[0]));
      bool is_difference = maker && maker->op == "subtract";
      if (!is_cast && !(is_difference && is_zero(maker->inputs[1]))) break;
      value = maker->inputs[0];
    }
    return value;
  }
  bool is_zero(ValueId value) const { return ranges_[value] && ranges_[value]->magnitude() == 0; }

  // In order, so that each is known where it is asked for.
  void find_ranges() {
    for (ValueId value = 0; value < graph_.values.size(); ++value) {
      if (data(value))
        ranges_[value] = range_in(*data(value));
      else if (is_byte(dtype(value)))
        ranges_[value] = dtype(value) == DType::I8 ? Range{-128, 127} : Range{0, 255};
    }
    for (const Node& node : graph_.nodes) {
      if (dtype(node.outputs[0]) == DType::I32) ranges_[node.outputs[0]] = range_behind(node);
    }
  }

  std::optional<Range> range_behind(const Node& node) const {
    if (node.op == "cast" || is_move(node)) return ranges_[node.inputs[0]];
    if (node.op != "subtract") return std::nullopt;
    const std::optional<Range>&from = ranges_[node.inputs[0]], &zero = ranges_[node.inputs[1]];
    return from && zero ? std::optional(Range{from->low - zero->high, from->high - zero->low}) : std::nullopt;
  }

  // The numbers that a value repeats; nothing if they differ along several dimensions.
  std::optional<Numbers> numbers_of(ValueId value) const {
    const Node* maker = makers_[value];
    ValueId source = maker && maker->op == "broadcast" ? maker->inputs[0] : value;
    const Ints& own = shape(source);
    i64 elements = elements_of(graph_.values[source].type);
    if (elements == 1 || (data(source) && has_numbers(*data(source), 1, 1))) return Numbers{source, std::nullopt, 1, 1};
    for (std::size_t d = 0; d < own.size(); ++d) {
      i64 apart = elements_behind(own, d);
      if (own[d] == elements || (data(source) && has_numbers(*data(source), own[d], apart)))
        return Numbers{source, shape(value).size() - own.size() + d, own[d], apart};
    }
    return std::nullopt;
  }

  // Integers that consist of constants alone. `steps`: nodes behind them.
  std::optional<HostArray> known(ValueId value, int steps = 0) const {
    if (data(value)) return *data(value);
    const Node* maker = makers_[value];
    if (!maker || dtype(value) != DType::I32 || steps == kMostSteps) return std::nullopt;
    if (maker->op == "cast") return known(maker->inputs[0], steps + 1);
    if (maker->op != "subtract") return std::nullopt;
    std::optional<HostArray> whole = known(maker->inputs[0], steps + 1);
    std::optional<Numbers> zero = numbers_of(maker->inputs[1]);
    if (!whole || !zero || !data(zero->source)) return std::nullopt;
    HostArray made = HostArray::zeros(DType::I32, whole->shape);
    i64 behind = zero->axis ? elements_behind(made.shape, *zero->axis) : 1;
    for (i64 e = 0; e < made.elements(); ++e)
      made.set(e, whole->get(e) - data(zero->source)->get(e / behind % zero->count * zero->apart));
    return made;
  }

  ValueId product(const Node& node, const std::vector<Dequantized>& operands) {
    const std::string& of = name(node.outputs[0]);
    WorkloadArguments arguments = node.arguments;
    arguments.push_back({"to", DType::I32});
    ValueId made = copy_.add(node.op, arguments, {moved(operands[0]), moved(operands[1])}, of);
    made = copy_.add("cast", {{"to", DType::F32}}, {made}, of);
    for (const Dequantized& operand : operands) {
      if (operand.scale)
        made = copy_.add("multiply", {}, {made, repeated(*operand.scale, shape(node.outputs[0]), of)}, of);
    }
    return made;
  }

  ValueId moved(const Dequantized& operand) {
    ValueId made = integers_now(operand.integers);
    for (const Node* move : operand.moves) made = copy_.add(move->op, move->arguments, {made}, name(move->outputs[0]));
    return made;
  }

  // Constants are computed here, however many they are: as nodes they would be computed in every run.
  ValueId integers_now(ValueId value) {
    if (is_byte(dtype(value))) return copy_.now(value);
    if (auto before = constants_.find(value); before != constants_.end()) return before->second;
    std::optional<HostArray> numbers = known(value);
    if (!numbers) return copy_.now(value);
    ValueId made = copy_.builder().constant(name(value), narrowest(*numbers));
    constants_.emplace(value, made);
    return made;
  }

  // The numbers along their dimension of `wanted`, repeated along all others.
  ValueId repeated(const Numbers& numbers, const Ints& wanted, const std::string& of) {
    Ints parted = wanted, own;
    if (numbers.axis) {
      std::size_t axis = *numbers.axis;
      if (numbers.count < wanted[axis]) {  // the numbers come several times, each for `alike` places in a row
        parted[axis] = numbers.alike;
        i64 again = wanted[axis] / (numbers.count * numbers.alike);
        parted.insert(parted.begin() + static_cast<std::ptrdiff_t>(axis), {again, numbers.count});
        ++axis;
      }
      own.assign(parted.size() - axis, 1);
      own[0] = numbers.count;
    }
    ValueId few;
    if (const HostArray* from = data(numbers.source)) {
      HostArray made = HostArray::zeros(from->dtype, own);
      for (i64 i = 0; i < numbers.count; ++i) made.set(i, from->get(i * numbers.apart));
      few = copy_.builder().constant(of + "_scale", std::move(made));
    } else {
      few = copy_.now(numbers.source);
      if (shape(numbers.source) != own) few = copy_.add("reshape", {{"R", own}}, {few}, of + "_scale");
    }
    ValueId many = copy_.add("broadcast", {{"R", parted}}, {few}, of + "_scales");
    return parted == wanted ? many : copy_.add("reshape", {{"R", wanted}}, {many}, of + "_scales");
  }

  const Graph& graph_;
  GraphCopy copy_;
  std::vector<const Node*> makers_;
  std::vector<std::optional<Range>> ranges_;  // of integers; nothing where it is not known
  std::map<ValueId, ValueId> constants_;      // that were computed, by the value of the old graph
};

}  // namespace

Graph integer_products(const Graph& graph) { return IntegerProducts(graph).run(); }

}  // namespace tw::graph
