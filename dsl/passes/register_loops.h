// Pass unroll_register_loops: loops that select a register must not remain.
// Input: loops of any kind. Output: a loop whose variable occurs in an index of a Register buffer is of kind Unroll or Vectorize.
// Rejects Parallel ones. Only the kind changes; unroll_loops replicates.
#pragma once
#include "dsl/base/result.h"
#include "dsl/ir/program.h"

namespace tw {

Result<Program> unroll_register_loops(Arena& arena, Program program);

}  // namespace tw
