// A block becomes part of its producer; the buffer between them goes. The producer keeps its handle and its place.
//   B[i] = A[i] + 1;  C[j] = B[j] * 2     reverse_compute_inline(C)   ->   block B: C[i] = (A[i] + 1) * 2
// Applies to a complete block that is one store and reads each element of a local buffer once, at its iters, if the
// writer of that buffer is a complete block of one store that nobody else reads. It may write at digits of its iters,
// put together in any way that reaches each element once, as a product does that was a convolution. Under a predicate:
// the producer's, which leaves out the same elements. Along an iter that is an index of its own, the block may read the
// beginning only, as what crops a padded result does; the producer then leaves out the rest, as a tail.
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(reverse_compute_inline, Unit(BlockId block))

static Result<Unit> apply(State& state, BlockId block) { return inline_into_producer(state, block); }

REGISTER(reverse_compute_inline, "A block becomes part of its only producer.")
