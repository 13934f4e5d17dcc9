// Pass partition_loops: tests in inner loops become specialised code.
// Input: Ifs (tails of imperfect splits) and Selects (padding) whose conditions depend on loop variables. Output: loops
// are cut where a condition inside them starts or stops to hold: `for i0 in 9 { for i1 in 6 { if i0 * 6 + i1 < 49 ..`
// becomes a loop over [0, 8) without a test and i0 = 8 with i1 in [0, 1). A Parallel loop is not cut, its body gets one
// test at the top instead (of its variable, or of a quotient or remainder of it where loops were fused). Loops of one
// iteration vanish. Conditions that guard much work, and those whose loops would become more code than
// options.max_instructions, stay.
#pragma once
#include "dsl/ir/program.h"
#include "dsl/passes/lower.h"

namespace tw {

Program partition_loops(Arena& arena, Program program, const LoweringOptions& options);

}  // namespace tw
