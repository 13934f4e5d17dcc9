// Fusion: a graph as kernels. Each group of nodes becomes one program: an anchor, which is a reduction, with what
// stands before and behind it element by element, or a chain of such nodes alone. Attention has two anchors: scores and
// the product with the values, and what reduces rows in between. Which loops and buffers come of that is for the rules
// to say.
#pragma once
#include "graph/parts.h"

namespace tw::graph {

struct Group {
  std::string name;        // of its operators: "conv_last_add_relu"
  std::vector<u32> nodes;  // of the graph, in order; one that only moves elements may be in several groups
  std::vector<ValueId> inputs, constants;  // that it reads, each once, in the order of its program's parameters
  std::vector<ValueId> outputs;            // behind them
  std::vector<Part> places;                // of all of them, in this order
  // Its last node is a concatenation that is no kernel, and all that the group does is to copy this operand to its
  // place in the result.
  std::optional<std::size_t> copied;
};

// Are kernels left out where values can lie in others? For processors; on devices each value is a buffer.
enum class InPlace : u8 { No, Yes };

struct FusedGraph {
  std::vector<Group> groups;  // each after those that it reads
  // Where each value lies. A view lies where its operand does. With InPlace::Yes a slice with several readers is a part
  // of its operand, and the operands of a concatenation are parts of its result.
  std::vector<Part> parts;
};

// The longest row, in bytes, of scores that stay inside of a kernel: a product, stages of its rows such as softmax, and
// the product behind them are one group then. A tile of 16 such rows takes a quarter of an L2 cache of 1 MiB. The
// number does not depend on the machine, so that a model has the same tasks everywhere.
inline constexpr i64 kSharedRowBytes = 16 << 10;
// `shared_row_bytes`: 0 = such products stay apart, as devices want them.
FusedGraph fuse(const Graph& graph, InPlace in_place = InPlace::No, i64 shared_row_bytes = kSharedRowBytes);

// The parameters X0, X1, ... (inputs), W0, ... (constants), then the outputs; dense, wherever they lie.
OwnedProgram program_of(const Graph& graph, const Group& group);
// Which of them are rows that lie apart.
std::vector<Pitch> pitches_of(const Graph& graph, const Group& group);

}  // namespace tw::graph
