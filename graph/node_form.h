// What the program of a node does to the places of its elements: what fusion and layouts go by. Read off its text, so
// an operator need not say it.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace tw::graph {

struct NodeForm {
  bool has_reduction = false;
  bool has_reuse = false;  // a reduction that reads elements more than once: a product, a convolution
  // Nothing is computed: elements come from other places, or a constant stands for them.
  bool is_movement = false;
  // Operand n has the result's shape and is read at the place of the result alone.
  std::vector<bool> same_place;
  // Operand n is read in the row of the result alone, whatever its last dimension: so are those of softmax, and the
  // first one of a product.
  std::vector<bool> same_row;
  // Every operand is, or is a scalar, and no argument is a list: the order of dimensions does not matter.
  bool is_elementwise = false;
};
NodeForm form_of(const Graph& graph, const Node& node);

// Does it only give numbers of 16 bits as f32?
bool is_widening(const Graph& graph, const Node& node);

// The same elements in the same order: the result can be its operand under another name. So are transpositions that
// move dimensions of extent 1 alone.
bool is_view(const Graph& graph, const Node& node);

}  // namespace tw::graph
