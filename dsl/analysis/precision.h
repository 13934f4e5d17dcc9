// How far products may be rounded before they are summed. For rules that choose instructions which round, and lowering,
// which believes no rule.
#pragma once
#include "dsl/ir/program.h"

namespace tw {

inline constexpr i64 kFullPrecision = 24;  // bits of an f32

// Bits that the products of a block with reduction iters must have right, by what the workload states as its tolerance;
// all where it states none. Errors of `n` products are taken as independent: they add up to sqrt(n) of one, of values
// near 1. `n` counts the products of one result: those that the block sums, in its iters and in loops of its body, and,
// where other blocks sum its results as they are, partial sums, those of these blocks together.
i64 precision_of(const Program& program, const Block* block);

}  // namespace tw
