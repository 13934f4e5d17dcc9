// Layouts are followed from the convolutions on: a value that one of them makes has its channels last, operators that
// work element by element take their operands that way, and a transposition is added only where somebody needs the
// other order.
#include <algorithm>
#include <map>
#include <optional>

#include "graph/node_form.h"
#include "graph/passes/orders.h"
#include "graph/passes/passes.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

// Where dimension d of N, C, D1, D2, ... stands in N, D1, D2, ..., C.
i64 last_place(i64 d, i64 rank) { return d == 0 ? 0 : d == 1 ? rank - 1 : d - 1; }

Ints to_last(i64 rank) {
  Ints order{0};
  for (i64 d = 2; d < rank; ++d) order.push_back(d);
  order.push_back(1);
  return order;
}
Ints from_last(i64 rank) {
  Ints order{0, rank - 1};
  for (i64 d = 1; d + 1 < rank; ++d) order.push_back(d);
  return order;
}

// Operators that do the same in any order of dimensions, and which of their arguments name dimensions or have a number
// for each.
struct Arguments {
  std::vector<std::string> axis, for_each;
};
const std::map<std::string, Arguments>& movable() {
  static const std::map<std::string, Arguments> table = {
      {"concat", {{"axis"}, {}}},
      {"pad", {{}, {"before", "after"}}},
      {"pad_edge", {{}, {"before", "after"}}},
      {"slice", {{}, {"start", "step", "R"}}},
      {"softmax", {{"axis"}, {}}},
      {"log_softmax", {{"axis"}, {}}},
  };
  return table;
}

class ChannelsLast {
 public:
  explicit ChannelsLast(const Graph& graph)
      : graph_(graph), copy_(graph), last_(graph.values.size()), makers_(makers_of(graph)) {}

  Graph run() {
    for (const Node& node : graph_.nodes) {
      if (node.op == "broadcast") continue;  // made in the order in which it is read
      if (is_window(node))
        last_[node.outputs[0]] = window(node);
      else if (has_windows_side_by_side(node))
        last_[node.outputs[0]] = spread(node);
      else if (has_last_operand(node) && keeps_order(node))
        last_[node.outputs[0]] = moved(node);
      else if (node.op.starts_with("reduce_") && last_[node.inputs[0]])
        reduction(node);
      else
        as_it_is(node);
    }
    for (ValueId output : graph_.outputs) plain(output);
    return copy_.finish();
  }

 private:
  i64 rank(ValueId value) const { return static_cast<i64>(graph_.values[value].type.shape.size()); }
  const std::string& name(ValueId value) const { return graph_.values[value].name; }

  static bool is_window(const Node& node) {
    return node.op == "conv" || node.op == "max_pool" || node.op == "average_pool";
  }

  ValueId window(const Node& node) {
    std::vector<ValueId> operands{last(node.inputs[0])};
    if (node.inputs.size() > 1) operands.push_back(plain(node.inputs[1]));
    return copy_.add(node.op + "_last", node.arguments, operands, name(node.outputs[0]));
  }

  // A transposed convolution that makes a window of each pixel, none of which overlap?
  bool has_windows_side_by_side(const Node& node) const {
    if (node.op != "conv_transposed" || !graph_.values[node.inputs[1]].data) return false;
    auto all_are = [&](const char* name, i64 number) {
      return std::ranges::all_of(*integers(node.arguments, name), [&](i64 own) { return own == number; });
    };
    const Ints &from = graph_.values[node.inputs[0]].type.shape, &window = graph_.values[node.inputs[1]].type.shape,
               &strides = *integers(node.arguments, "strides"), &out = *integers(node.arguments, "out");
    for (std::size_t d = 0; d < strides.size(); ++d) {
      if (window[d + 2] != strides[d] || out[d] != from[d + 2] * strides[d]) return false;
    }
    return integer(node.arguments, "groups") == 1 && all_are("before", 0) && all_are("dilations", 1);
  }

  // Such a one: a product of each pixel with the weights of all places of the window, and each result goes to its
  // place.
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

  bool keeps_order(const Node& node) const {
    if (node.outputs.size() != 1 || rank(node.outputs[0]) < 3) return false;
    auto is_alike = [&](ValueId input) { return rank(input) == rank(node.outputs[0]) || rank(input) == 0; };
    if (!std::ranges::all_of(node.inputs, is_alike)) return false;
    return movable().count(node.op) > 0 || form_of(graph_, node).is_elementwise;
  }

  ValueId moved(const Node& node) {
    i64 dims = rank(node.outputs[0]);
    WorkloadArguments arguments = node.arguments;
    auto known = movable().find(node.op);
    for (WorkloadArgument& argument : arguments) {
      if (known == movable().end()) break;
      if (std::ranges::count(known->second.axis, argument.name) > 0)
        argument.value = last_place(std::get<i64>(argument.value), dims);
      if (std::ranges::count(known->second.for_each, argument.name) > 0)
        argument.value = in_order(std::get<Ints>(argument.value), to_last(dims));
    }
    std::vector<ValueId> operands;
    for (ValueId input : node.inputs) operands.push_back(rank(input) == 0 ? plain(input) : last(input));
    return copy_.add(node.op, arguments, operands, name(node.outputs[0]));
  }

  // The dimensions that are left come in the order of the operand.
  void reduction(const Node& node) {
    i64 dims = rank(node.inputs[0]);
    const Ints& axes = *integers(node.arguments, "axes");
    Ints moved_axes, kept;
    for (i64 axis : axes) moved_axes.push_back(last_place(axis, dims));
    for (i64 d : to_last(dims)) {
      if (std::ranges::count(axes, d) == 0) kept.push_back(d);
    }
    i64 left = static_cast<i64>(kept.size());
    Ints sorted = kept;
    std::ranges::sort(sorted);
    bool is_last = left >= 3 && kept == in_order(sorted, to_last(left));
    if (kept != sorted && !is_last) return as_it_is(node);
    WorkloadArguments arguments = node.arguments;
    for (WorkloadArgument& argument : arguments) {
      if (argument.name == "axes") argument.value = moved_axes;
    }
    ValueId made = copy_.add(node.op, arguments, {last(node.inputs[0])}, name(node.outputs[0]));
    if (kept == sorted)
      copy_.set(node.outputs[0], made);
    else
      last_[node.outputs[0]] = made;
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
  GraphCopy copy_;
  std::vector<std::optional<ValueId>> last_;  // of a value of the old graph, with its channels last
  std::vector<const Node*> makers_;
};

}  // namespace

Graph channels_last(const Graph& graph) { return ChannelsLast(graph).run(); }

}  // namespace tw::graph
