// A block becomes part of the blocks that read it; its buffer goes.
//   B[i] = A[i] + 1;  C[j] = B[j + 2] * 2     compute_inline(B)   ->   C[j] = (A[j + 2] + 1) * 2
// Applies to a complete block that is one store to a local buffer, at indices that are its iters, each once. Under a
// predicate: elements that the predicate leaves out are never read.
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(compute_inline, Unit(BlockId block))

static Result<Unit> apply(State& state, BlockId block) { return inline_into_consumers(state, block); }

REGISTER(compute_inline, "A block becomes part of the blocks that read it.")
