// With two layouts the cheapest assignment is a minimum cut: nodes on the first side have their channels last, those on
// the second one are row-major. A value is transposed once, however many nodes read it; a cut can express that, so it
// is exact on all graphs. A dynamic program in the order of the nodes is exact on chains and trees alone.
#include "graph/passes/layouts.h"

#include <algorithm>
#include <cmath>

#include "graph/passes/minimum_cut.h"
#include "graph/passes/orders.h"
#include "graph/passes/passes.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;
using Point = MinimumCut::Point;

constexpr Point kLast = MinimumCut::kFirst, kRowMajor = MinimumCut::kSecond;
constexpr double kUnit = 1e-12;  // seconds: costs are integers, so that sums are exact in any order
constexpr double kLongest = 10;  // seconds; a longer time counts as this one
// What follows a window is computed in its kernel, so a transposition belongs as far behind the window as its cost
// allows: one of the window's own result costs kNearest units more, and each node farther behind it one unit less.
constexpr i64 kNearest = 64;

i64 units(double seconds) { return std::llround(std::clamp(seconds, 0.0, kLongest) / kUnit); }

class LayoutCut {
 public:
  LayoutCut(const Graph& graph, LayoutCosts& costs)
      : graph_(graph),
        costs_(costs),
        made_by_(graph.values.size(), kRowMajor),
        behind_(graph.values.size(), -1),
        readers_(graph.values.size()) {}

  std::vector<Layout> run() {
    std::vector<Point> points;
    for (const Node& node : graph_.nodes) points.push_back(add(node));
    for (ValueId output : graph_.outputs) readers_[output].push_back(kRowMajor);
    add_conversions();
    std::vector<bool> is_row_major = cut_.second_side();
    std::vector<Layout> layouts;
    for (Point point : points) layouts.push_back(is_row_major[point] ? Layout::RowMajor : Layout::ChannelsLast);
    return layouts;
  }

 private:
  const OperandType& type(ValueId value) const { return graph_.values[value].type; }

  // The point of a node; notes what it reads and makes.
  Point add(const Node& node) {
    const bool may_follow = std::ranges::any_of(node.inputs, [&](ValueId input) { return behind_[input] >= 0; });
    const bool is_known = may_follow || node.op == "broadcast" || is_window(graph_, node);
    const LayoutRole role = is_known ? layout_role(graph_, node) : LayoutRole::RowMajor;
    if (role == LayoutRole::Reducer) return kRowMajor;
    if (role == LayoutRole::Window) {
      const Point point = add_window(node);
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        readers_[node.inputs[i]].push_back(i == 0 ? point : kRowMajor);
      return note(node, point, 0);
    }
    if (role == LayoutRole::Follower) {
      const Point point = cut_.add_point();
      i64 behind = 0;
      for (ValueId input : node.inputs) {
        readers_[input].push_back(point);
        behind = std::max(behind, behind_[input] + 1);
      }
      return note(node, point, behind);
    }
    for (ValueId input : node.inputs) readers_[input].push_back(kRowMajor);
    return kRowMajor;
  }

  // `behind`: how many nodes it is behind a window.
  Point note(const Node& node, Point point, i64 behind) {
    made_by_[node.outputs[0]] = point;
    behind_[node.outputs[0]] = behind;
    return point;
  }

  Point add_window(const Node& node) {
    const double row_major = costs_.window(graph_, node, Layout::RowMajor);
    if (!std::isfinite(row_major)) return kLast;
    const double last = costs_.window(graph_, node, Layout::ChannelsLast);
    if (!std::isfinite(last)) return kLast;
    const Point point = cut_.add_point();
    cut_.add_edge(kLast, point, units(kClearlyFaster * row_major));
    cut_.add_edge(point, kRowMajor, units(last));
    return point;
  }

  void add_conversions() {
    const std::vector<const Node*> makers = makers_of(graph_);
    for (ValueId value = 0; value < graph_.values.size(); ++value) {
      OperandType own = type(value);
      ValueId source = value;
      if (const Node* maker = makers[value]; maker && maker->op == "broadcast") {
        source = maker->inputs[0];
        const std::size_t missing = own.shape.size() - type(source).shape.size();
        own = type(source);
        own.shape.insert(own.shape.begin(), missing, 1);
      }
      if (own.shape.size() < 3 || graph_.values[source].data) continue;
      const i64 nearest = std::max<i64>(0, kNearest - std::max<i64>(0, behind_[value]));
      add_conversion(made_by_[value], readers_[value], 1 + nearest + conversion(own));
    }
  }

  // With one channel or one pixel both layouts have the same elements in the same order.
  i64 conversion(const OperandType& own) {
    const i64 pixels = own.shape[0] * own.shape[1] == 0 ? 0 : elements_of(own) / (own.shape[0] * own.shape[1]);
    return own.shape[1] == 1 || pixels <= 1 ? 0 : units(costs_.conversion(own));
  }

  // Paid once if some reader has the other layout than the maker.
  void add_conversion(Point maker, const std::vector<Point>& readers, i64 cost) {
    const bool is_one_layout = std::ranges::all_of(readers, [&](Point reader) { return reader == maker; });
    if (is_one_layout) return;
    const Point any_last = cut_.add_point(), all_last = cut_.add_point();
    for (Point reader : readers) {
      cut_.add_edge(reader, any_last, MinimumCut::kNever);
      cut_.add_edge(all_last, reader, MinimumCut::kNever);
    }
    cut_.add_edge(any_last, maker, cost);
    cut_.add_edge(maker, all_last, cost);
  }

  const Graph& graph_;
  LayoutCosts& costs_;
  MinimumCut cut_;
  std::vector<Point> made_by_;  // of each value
  std::vector<i64> behind_;     // of each value that may have its channels last, else -1
  std::vector<std::vector<Point>> readers_;
};

}  // namespace

std::vector<Layout> cheapest_layouts(const Graph& graph, LayoutCosts& costs) { return LayoutCut(graph, costs).run(); }

Graph window_alone(const Graph& graph, const Node& window, Layout layout) {
  const bool is_last = layout == Layout::ChannelsLast;
  GraphBuilder builder("window");
  auto add = [&](const std::string& op, const WorkloadArguments& arguments, const std::vector<ValueId>& operands) {
    std::string error;
    auto made = builder.add(op, arguments, operands, op, error);
    if (!made) refused(error);
    return (*made)[0];
  };
  std::vector<ValueId> operands;
  for (ValueId input : window.inputs) {
    const Value& value = graph.values[input];
    const i64 rank = std::ssize(value.type.shape);
    const bool is_image = operands.empty();
    if (value.data && !is_image) {
      operands.push_back(builder.constant(value.name, value.data));
    } else if (is_image && is_last) {
      ValueId image = builder.input(value.name, {value.type.dtype, in_order(value.type.shape, to_last(rank))});
      operands.push_back(add("transpose", {{"order", from_last(rank)}}, {image}));
    } else {
      operands.push_back(builder.input(value.name, value.type));
    }
  }
  ValueId result = add(window.op, window.arguments, operands);
  if (is_last) result = add("transpose", {{"order", to_last(std::ssize(builder.type(result).shape))}}, {result});
  builder.output(result, window.op);
  Graph made = builder.finish();
  return is_last ? remove_unused(join_transposes(channels_last(made))) : made;
}

}  // namespace tw::graph
