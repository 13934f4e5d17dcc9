#include <algorithm>

#include "graph/passes/passes.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

bool is_zero(const Value& value) { return value.data && value.data->elements() == 1 && value.data->get(0) == 0; }

// Zeros around the rows and columns of images, as convolutions can have them.
bool is_margin(const Graph& graph, const Node& pad) {
  if (pad.op != "pad" || !is_zero(graph.values[pad.inputs[1]])) return false;
  for (const char* side : {"before", "after"}) {
    const Ints& widths = *integers(pad.arguments, side);
    if (widths.size() < 3 || widths[0] != 0 || widths[1] != 0) return false;
    if (std::ranges::any_of(widths, [](i64 width) { return width < 0; })) return false;
  }
  return true;
}

}  // namespace

Graph fold_pads(const Graph& graph) {
  GraphCopy copy(graph);
  std::vector<const Node*> makers = makers_of(graph);
  for (const Node& node : graph.nodes) {
    const Node* pad = node.op == "conv" ? makers[node.inputs[0]] : nullptr;
    if (!pad || !is_margin(graph, *pad)) {
      copy.copy(node);
      continue;
    }
    WorkloadArguments arguments = node.arguments;
    for (WorkloadArgument& argument : arguments) {
      const Ints* wider =
          argument.name == "before" || argument.name == "after" ? integers(pad->arguments, argument.name) : nullptr;
      for (std::size_t d = 2; wider && d < wider->size(); ++d) std::get<Ints>(argument.value)[d - 2] += (*wider)[d];
    }
    std::vector<ValueId> operands{copy.now(pad->inputs[0]), copy.now(node.inputs[1])};
    copy.set(node.outputs[0], copy.add(node.op, arguments, operands, graph.values[node.outputs[0]].name));
  }
  return copy.finish();
}

}  // namespace tw::graph
