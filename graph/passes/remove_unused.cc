#include <algorithm>
#include <ranges>

#include "graph/passes/passes.h"

namespace tw::graph {

Graph remove_unused(const Graph& graph) {
  std::vector<bool> is_used(graph.values.size(), false);
  for (ValueId output : graph.outputs) is_used[output] = true;
  auto is_needed = [&](const Node& node) {
    return std::ranges::any_of(node.outputs, [&](ValueId output) { return is_used[output]; });
  };
  for (const Node& node : graph.nodes | std::views::reverse) {
    if (!is_needed(node)) continue;
    for (ValueId input : node.inputs) is_used[input] = true;
  }
  GraphCopy copy(graph);
  for (const Node& node : graph.nodes) {
    if (is_needed(node)) copy.copy(node);
  }
  return copy.finish();
}

}  // namespace tw::graph
