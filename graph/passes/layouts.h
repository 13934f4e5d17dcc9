// The choice of layouts by costs: which windows compute on row-major values and which with the channels last, so that
// their kernels and the transpositions between them take the least time. The caller gives the costs.
#pragma once
#include <vector>

#include "graph/passes/layout_roles.h"

namespace tw::graph {

// Seconds, >= 0. They are asked for by one thread; the same question has to get the same answer.
class LayoutCosts {
 public:
  virtual ~LayoutCosts() = default;
  // The kernels of a window by itself, in this layout. Infinity: unknown, or not worth trying; the window then has its
  // channels last. Row-major is asked for first.
  virtual double window(const Graph& graph, const Node& node, Layout layout) = 0;
  // A transposition of a value between the layouts; `type` is the row-major one.
  virtual double conversion(const OperandType& type) = 0;
};

// Costs are estimates, so those of row-major windows count this many times.
inline constexpr double kClearlyFaster = 1.25;

// In which layout each node computes. Windows, and followers with an operand that may have its channels last, have a
// choice; all others are row-major. Of all assignments this one costs the least, where row-major windows count
// kClearlyFaster times, a value with readers in the other layout is transposed once (a broadcast: its source), and
// inputs and outputs are row-major. Of equally cheap ones it has the fewest transpositions, these far behind windows,
// and then the most nodes with the channels last. Transpositions that the graph has already are nodes like others: what
// join_transposes() saves by joining them with new ones is not counted.
std::vector<Layout> cheapest_layouts(const Graph& graph, LayoutCosts& costs);

// A window alone, in a graph whose image and result have that layout.
Graph window_alone(const Graph& graph, const Node& window, Layout layout);

}  // namespace tw::graph
