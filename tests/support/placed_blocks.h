// Blocks with the loops around them, for tests that enumerate what a block touches. Programs of sequences, loops and
// blocks only.
#pragma once
#include <vector>

#include "dsl/ir/nodes.h"

namespace tw::test {

struct PlacedBlock {
  const Block* block;
  std::vector<const For*> loops;  // around it, outermost first
};

inline void place_blocks(const Stmt* stmt, std::vector<const For*>& around, std::vector<PlacedBlock>& out) {
  if (const Block* block = as<Block>(stmt)) out.push_back({block, around});
  if (const Seq* seq = as<Seq>(stmt)) {
    for (const Stmt* child : seq->stmts) place_blocks(child, around, out);
  }
  if (const For* loop = as<For>(stmt)) {
    around.push_back(loop);
    place_blocks(loop->body, around, out);
    around.pop_back();
  }
}

}  // namespace tw::test
