// Pass vectorize_loops: loops of kind Vectorize become vector operations.
// Input: flat buffers, one I64 index each, loops of kind Vectorize. Output: none of that kind. Vectors have as many
// lanes as fit options.vector_bits. The remainder is a vector that leaves out lanes, where the machine can; a vector
// whose other lanes nobody uses, in loops that write to registers only, if all loops that write there can; else smaller
// powers of two. Accesses that depend on the loop have the index Ramp(base, stride, lanes), what does not stays scalar
// and is broadcast where it meets a vector. Up to eight vectors (and any number that selects registers) are written
// out, inside the loops that lie inside of the vectorized one; more are a Serial loop. A Select with a vector condition
// evaluates both sides: it is made only where all lanes may be read. Where no vector form exists the loop becomes
// Serial. Rejects a loop that stores different values to the same place.
#pragma once
#include "dsl/base/result.h"
#include "dsl/ir/program.h"
#include "dsl/passes/lower.h"

namespace tw {

Result<Program> vectorize_loops(Arena& arena, Program program, const LoweringOptions& options);

}  // namespace tw
