// Pass unroll_register_loops: loops that select a register must not remain.
// Input: loops of any kind. Output: a loop whose variable occurs in an index of a Register buffer is of kind Unroll, or
// Vectorize if it was or writes a row of registers to memory. Rejects Parallel ones. Only the kind changes;
// unroll_loops replicates.
#pragma once
#include "dsl/base/result.h"
#include "dsl/ir/program.h"

namespace tw {

Result<Program> unroll_register_loops(Arena& arena, Program program);

}  // namespace tw
