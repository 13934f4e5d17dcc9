// Pass unroll_loops: loops of kind Unroll are replicated with their variable constant.
// Input: flat buffers. Output: no loop of kind Unroll, only Serial and Parallel ones, and every index of a Register
// buffer is constant. The copies of a loop that carries `hide_address` are loops of one iteration that carry it.
// Rejects where it is not, or where a nest would have more than options.max_instructions vector operations.
#pragma once
#include "dsl/base/result.h"
#include "dsl/ir/program.h"
#include "dsl/passes/lower.h"

namespace tw {

Result<Program> unroll_loops(Arena& arena, Program program, const LoweringOptions& options);

}  // namespace tw
