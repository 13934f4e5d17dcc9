// Rows of the kind `loops`: the loop tree of a program, one row for each node, for tree networks. Nodes are loops, the
// stores inside (leaves), and one root above all. Rows are in post-order: children before parents, the root last.
// A row is the context vector of AutoTVM (NeurIPS 2018, section 3.1 and its appendix): what the node is, its length and
// marks, products of extents around and inside, and of the buffers with the most bytes below it how it touches them.
// The last column says how many rows further on the parent is; 0 for the root alone.
#pragma once
#include <string>
#include <vector>

#include "costmodel/loop_contexts.h"

namespace tw {

int loop_columns();
// One name per column, all different; the last is "parent".
const std::vector<std::string>& loop_column_names();

// Reuses its memory between calls: one per thread. Rows depend on the program's structure and the target only.
class LoopRows {
 public:
  explicit LoopRows(const FeatureTarget& target) : contexts_(target) {}
  // Replaces `rows` by the program's, loop_columns() floats each, all finite. Loops around nothing that counts
  // (LoopContexts) have no row; the root always has one.
  void extract(const Program& program, std::vector<float>& rows);

 private:
  float* add_row(std::vector<float>& rows);
  void add_loop(const FlatProgram& flat, u32 loop, std::vector<float>& rows);
  void add_store(const FlatProgram& flat, const FlatStore& store, std::vector<float>& rows);
  void add_touches(const FlatProgram& flat, std::span<const BufferTouch> touches, float* row);
  void close(int depth, std::vector<float>& rows);

  LoopContexts contexts_;
  std::vector<BufferTouch> largest_;
  // Rows whose parent has no row yet, by depth of that parent: 0 = the root, d + 1 = the d-th loop of the open chain.
  std::vector<std::vector<int>> waiting_;
};

}  // namespace tw
