// Fusion: a graph as kernels. Each group of nodes becomes one program: an anchor, which is a reduction, with what
// stands before and behind it element by element, or a chain of such nodes alone. Attention has two anchors: scores and
// the product with the values, and what reduces rows in between. Which loops and buffers come of that is for the rules
// to say.
#pragma once
#include "graph/graph.h"

namespace tw::graph {

struct Group {
  std::string name;        // of its operators: "conv_last_add_relu"
  std::vector<u32> nodes;  // of the graph, in order; one that only moves elements may be in several groups
  std::vector<ValueId> inputs, constants;  // that it reads, each once, in the order of its program's parameters
  std::vector<ValueId> outputs;            // behind them
};

struct FusedGraph {
  std::vector<Group> groups;  // each after those that it reads
  // The value whose memory a value has: a view is its operand under another name, all others are their own.
  std::vector<ValueId> memory;
};

// A product, stages of its rows such as softmax, and a product of these with another matrix are one group if a row has
// at most so many bytes: then 16 of them, which make good tiles, take a quarter of a second cache of 1 MiB. It does not
// depend on the machine, so that a model has the same tasks everywhere.
inline constexpr i64 kSharedRowBytes = 16 << 10;
// `shared_row_bytes`: 0 = such products stay apart, as devices want them.
FusedGraph fuse(const Graph& graph, i64 shared_row_bytes = kSharedRowBytes);

// The parameters X0, X1, ... (inputs), W0, ... (constants), then the outputs.
OwnedProgram program_of(const Graph& graph, const Group& group);

}  // namespace tw::graph
