// Nests that the 32 lanes of a warp can do together by one matrix instruction (mma.sync m16n8k8, operands of 16 bits, sums
// in f32). Used by the printer of CUDA C. The mark kWarpMmaMark stands on the outermost of three loops
//   for h in 2 { for e in 2 { for k in 8 { C[..] = C[..] + f32(A[..]) * f32(B[..]) } } }
// of which each lane t makes its own part of a tile: rows t // 4 % 8 + 8 * h, columns t % 4 * 2 + e. The loops stay the
// meaning: what does not match is printed as loops, so that a wrong mark does no harm.
#pragma once
#include "dsl/analysis/sum.h"
#include "dsl/ir/nodes.h"

namespace tw {

inline constexpr std::string_view kWarpMmaMark = "warp_mma";

// Indices of what a lane brings, without what it chooses: add row_step * h and a_step * k to `a`, b_step * k to `b`.
struct WarpMma {
  const Store* update;
  const Load *a, *b;
  const Var *h, *e, *k;
  Sum a_index, b_index;  // b: of the column t // 4 % 8 of the tile
  i64 row_step, a_step, b_step;
};
// `threads`: the loop over all work-items of a group around the nest, a multiple of 32.
std::optional<WarpMma> match_warp_mma(Arena& arena, const For* nest, const For* threads, const VarRanges& ranges);

}  // namespace tw
