// What a thread of a GPU computes for a store, in simple instructions, as compilers leave it: what a loop does not change is computed outside
// of it, and of unrolled code what is the same is computed once. Used by gpu_draft.h. Memory and indices are not in it.
#pragma once
#include <vector>

#include "costmodel/flat_program.h"

namespace tw {

// One loop around a store, as a thread sees it.
struct ThreadLoop {
  double extent = 1;  // 1 for what is bound to blocks and threads
  bool is_unrolled = false;
};

// `loops`: those around the store, outermost first. Conversions of matrix instructions' operands are part of these (`is_mma`).
double thread_work(const FlatProgram& program, const FlatStore& store, const std::vector<ThreadLoop>& loops, bool is_mma);

}  // namespace tw
