// Windows with their channels last: a value that one of them makes has its channels last, operators that work element
// by element take their operands that way, and a transposition is added only where somebody needs the other order.
// Which windows and followers do so may be chosen before (layouts.h); else all of them do.
#include <algorithm>
#include <optional>

#include "graph/passes/layouts.h"
#include "graph/passes/orders.h"
#include "graph/passes/passes.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

class ChannelsLast {
 public:
  // `layouts`: of each node; null = all windows have their channels last, and so has what reads them, where it can.
  ChannelsLast(const Graph& graph, const std::vector<Layout>* layouts)
      : graph_(graph), layouts_(layouts), copy_(graph), last_(graph.values.size()), makers_(makers_of(graph)) {}

  Graph run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) add(n);
    for (ValueId output : graph_.outputs) plain(output);
    return copy_.finish();
  }

 private:
  void add(std::size_t n) {
    const Node& node = graph_.nodes[n];
    if (node.op == "broadcast") return;  // made in the order in which it is read
    const bool is_chosen = layouts_ && (*layouts_)[n] == Layout::ChannelsLast;
    const bool may_follow = is_chosen || has_last_operand(node);
    const LayoutRole role = may_follow || is_window(graph_, node) ? layout_role(graph_, node) : LayoutRole::RowMajor;
    const bool is_last = is_chosen || !layouts_;
    if (role == LayoutRole::Window && is_last)
      last_[node.outputs[0]] = has_windows_side_by_side(graph_, node) ? spread(node) : window(node);
    else if (role == LayoutRole::Follower && is_last)
      last_[node.outputs[0]] = node.op.starts_with("reduce_") ? reduced(node) : moved(node);
    else if (role == LayoutRole::Reducer && has_last_operand(node))
      copy_.set(node.outputs[0], reduced(node));
    else
      as_it_is(node);
  }

  i64 rank(ValueId value) const { return static_cast<i64>(graph_.values[value].type.shape.size()); }
  const std::string& name(ValueId value) const { return graph_.values[value].name; }

  ValueId window(const Node& node) {
    std::vector<ValueId> operands{last(node.inputs[0])};
    if (node.inputs.size() > 1) operands.push_back(plain(node.inputs[1]));
    return copy_.add(node.op + "_last", node.arguments, operands, name(node.outputs[0]));
  }

  // A transposed convolution with windows side by side: a product of each pixel with the weights of all places of the
  // window, and each result goes to its place.
  ValueId spread(const Node& node) {
    const Ints &image = graph_.values[node.inputs[0]].type.shape, &weights = graph_.values[node.inputs[1]].type.shape;
    const std::string& of = name(node.outputs[0]);
    std::size_t dims = image.size() - 2;
    Ints order, ones(dims, 1), none(dims, 0);
    for (std::size_t d = 0; d < dims; ++d) order.push_back(static_cast<i64>(d) + 2);
    order.insert(order.end(), {1, 0});
    Ints rows{weights[1], weights[0]}, split{image[0]}, moves{0}, result{image[0]};
    for (std::size_t d = 0; d < dims; ++d) rows[0] *= weights[d + 2];
    rows.insert(rows.end(), dims, 1);
    for (std::size_t d = 0; d < dims; ++d)
      split.push_back(image[d + 2]), result.push_back(image[d + 2] * weights[d + 2]);
    split.insert(split.end(), weights.begin() + 2, weights.end());
    for (std::size_t d = 1; d <= dims; ++d)
      moves.insert(moves.end(), {static_cast<i64>(d), static_cast<i64>(d + dims)});
    split.push_back(weights[1]), result.push_back(weights[1]), moves.push_back(static_cast<i64>(2 * dims + 1));
    ValueId filters = copy_.add("transpose", {{"order", order}}, {plain(node.inputs[1])}, name(node.inputs[1]));
    filters = copy_.add("reshape", {{"R", rows}}, {filters}, name(node.inputs[1]));
    ValueId made = copy_.add(
        "conv_last", {{"strides", ones}, {"before", none}, {"after", none}, {"dilations", ones}, {"groups", i64{1}}},
        {last(node.inputs[0]), filters}, of);
    made = copy_.add("reshape", {{"R", split}}, {made}, of);
    made = copy_.add("transpose", {{"order", moves}}, {made}, of);
    return copy_.add("reshape", {{"R", result}}, {made}, of);
  }

  bool has_last_operand(const Node& node) const {
    return std::ranges::any_of(node.inputs, [&](ValueId input) { return last_[input].has_value(); });
  }

  ValueId moved(const Node& node) {
    i64 dims = rank(node.outputs[0]);
    WorkloadArguments arguments = node.arguments;
    const PlaceArguments* places = place_arguments(node.op);
    for (WorkloadArgument& argument : arguments) {
      if (!places) break;
      if (std::ranges::count(places->axis, argument.name) > 0)
        argument.value = last_place(std::get<i64>(argument.value), dims);
      if (std::ranges::count(places->for_each, argument.name) > 0)
        argument.value = in_order(std::get<Ints>(argument.value), to_last(dims));
    }
    std::vector<ValueId> operands;
    for (ValueId input : node.inputs) operands.push_back(rank(input) == 0 ? plain(input) : last(input));
    return copy_.add(node.op, arguments, operands, name(node.outputs[0]));
  }

  // A reduction of an operand that has its channels last. The result keeps the order of the dimensions that are left.
  ValueId reduced(const Node& node) {
    Ints moved_axes;
    for (i64 axis : *integers(node.arguments, "axes")) moved_axes.push_back(last_place(axis, rank(node.inputs[0])));
    WorkloadArguments arguments = node.arguments;
    for (WorkloadArgument& argument : arguments) {
      if (argument.name == "axes") argument.value = moved_axes;
    }
    return copy_.add(node.op, arguments, {last(node.inputs[0])}, name(node.outputs[0]));
  }

  void as_it_is(const Node& node) {
    for (ValueId input : node.inputs) plain(input);
    copy_.copy(node);
  }

  ValueId plain(ValueId value) {
    if (!copy_.has(value) && !graph_.values[value].data) {
      if (last_[value]) {
        copy_.set(value, copy_.add("transpose", {{"order", from_last(rank(value))}}, {*last_[value]}, name(value)));
      } else {
        plain(makers_[value]->inputs[0]);
        copy_.copy(*makers_[value]);
      }
    }
    return copy_.now(value);
  }

  ValueId last(ValueId value) {
    if (!last_[value]) {
      const Node* maker = makers_[value];
      last_[value] = maker && maker->op == "broadcast"
                         ? broadcast(*maker)
                         : moved_last(plain(value), graph_.values[value].type.shape, name(value));
    }
    return *last_[value];
  }

  ValueId moved_last(ValueId made, const Ints& shape, const std::string& of) {
    return transposed(copy_, made, shape, to_last(std::ssize(shape)), of + "_last");
  }

  // From an operand whose few dimensions are moved, and not the many of the result.
  ValueId broadcast(const Node& node) {
    ValueId source = node.inputs[0], result = node.outputs[0];
    i64 dims = rank(result);
    Ints shape = graph_.values[source].type.shape;
    shape.insert(shape.begin(), static_cast<std::size_t>(dims - rank(source)), 1);
    return copy_.add("broadcast", {{"R", in_order(graph_.values[result].type.shape, to_last(dims))}},
                     {moved_last(plain(source), shape, name(source))}, name(result));
  }

  const Graph& graph_;
  const std::vector<Layout>* layouts_;
  GraphCopy copy_;
  std::vector<std::optional<ValueId>> last_;  // of a value of the old graph, with its channels last
  std::vector<const Node*> makers_;
};

}  // namespace

Graph channels_last(const Graph& graph) { return ChannelsLast(graph, nullptr).run(); }

Graph with_layouts(const Graph& graph, const std::vector<Layout>& layouts) {
  return ChannelsLast(graph, &layouts).run();
}

Graph in_cheapest_layouts(const Graph& graph, LayoutCosts& costs) {
  const std::vector<Layout> layouts = cheapest_layouts(graph, costs);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (layouts[n] == Layout::RowMajor && is_window(graph, graph.nodes[n])) return with_layouts(graph, layouts);
  }
  return channels_last(graph);
}

}  // namespace tw::graph
