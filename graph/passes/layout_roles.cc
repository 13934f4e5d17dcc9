#include "graph/passes/layout_roles.h"

#include <algorithm>
#include <map>

#include "graph/node_form.h"
#include "graph/passes/orders.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

const Ints& shape_of(const Graph& graph, ValueId value) { return graph.values[value].type.shape; }

bool keeps_order(const Graph& graph, const Node& node) {
  if (node.outputs.size() != 1) return false;
  const std::size_t rank = shape_of(graph, node.outputs[0]).size();
  auto is_alike = [&](ValueId input) {
    return shape_of(graph, input).size() == rank || shape_of(graph, input).empty();
  };
  if (rank < 3 || !std::ranges::all_of(node.inputs, is_alike)) return false;
  return place_arguments(node.op) || form_of(graph, node).is_elementwise;
}

// The dimensions that are left come in the order of the operand. Where that has its channels last, the result is
// row-major if they are in order, may have its channels last itself, or is neither.
LayoutRole role_of_reduction(const Graph& graph, const Node& node) {
  const i64 rank = std::ssize(shape_of(graph, node.inputs[0]));
  const Ints& axes = *integers(node.arguments, "axes");
  Ints kept;
  for (i64 d : to_last(rank)) {
    if (std::ranges::count(axes, d) == 0) kept.push_back(d);
  }
  if (std::ranges::is_sorted(kept)) return LayoutRole::Reducer;
  Ints sorted = kept;
  std::ranges::sort(sorted);
  const i64 left = std::ssize(kept);
  return left >= 3 && kept == in_order(sorted, to_last(left)) ? LayoutRole::Follower : LayoutRole::RowMajor;
}

}  // namespace

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

const PlaceArguments* place_arguments(const std::string& op) {
  static const std::map<std::string, PlaceArguments> table = {
      {"concat", {{"axis"}, {}}},
      {"pad", {{}, {"before", "after"}}},
      {"pad_edge", {{}, {"before", "after"}}},
      {"slice", {{}, {"start", "step", "R"}}},
      {"softmax", {{"axis"}, {}}},
      {"log_softmax", {{"axis"}, {}}},
  };
  auto at = table.find(op);
  return at == table.end() ? nullptr : &at->second;
}

bool has_windows_side_by_side(const Graph& graph, const Node& node) {
  if (node.op != "conv_transposed" || !graph.values[node.inputs[1]].data) return false;
  auto all_are = [&](const char* name, i64 number) {
    return std::ranges::all_of(*integers(node.arguments, name), [&](i64 own) { return own == number; });
  };
  const Ints &from = shape_of(graph, node.inputs[0]), &window = shape_of(graph, node.inputs[1]),
             &strides = *integers(node.arguments, "strides"), &out = *integers(node.arguments, "out");
  for (std::size_t d = 0; d < strides.size(); ++d) {
    if (window[d + 2] != strides[d] || out[d] != from[d + 2] * strides[d]) return false;
  }
  return integer(node.arguments, "groups") == 1 && all_are("before", 0) && all_are("dilations", 1);
}

bool is_window(const Graph& graph, const Node& node) {
  return node.op == "conv" || node.op == "max_pool" || node.op == "average_pool" ||
         has_windows_side_by_side(graph, node);
}

LayoutRole layout_role(const Graph& graph, const Node& node) {
  if (node.op == "broadcast") return LayoutRole::Repeater;
  if (is_window(graph, node)) return LayoutRole::Window;
  if (keeps_order(graph, node)) return LayoutRole::Follower;
  const bool is_reduction = node.op.starts_with("reduce_") && shape_of(graph, node.inputs[0]).size() >= 3;
  return is_reduction ? role_of_reduction(graph, node) : LayoutRole::RowMajor;
}

}  // namespace tw::graph
