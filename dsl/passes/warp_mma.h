// Nests that the 32 lanes of a warp can do together by one matrix instruction (mma.sync). Used by the printer of CUDA C. The
// mark kWarpMmaMark stands on the outermost of three loops
//   for h in 2 { for e in 2 { for k in n { C[..] = C[..] + wide(A[..]) * wide(B[..]) } } }
// of which each lane t makes its own part of a tile: rows t // 4 % 8 + 8 * h, columns t % 4 * 2 + e. The loops stay the
// meaning: what does not match is printed as loops, so that a wrong mark does no harm.
//
// All these instructions have a tile of 16 x 8 sums and differ in what they multiply. A register of an operand holds 4 bytes,
// which follow each other along k; 4 lanes hold 16 bytes of a row, the rows are dealt to the 8 groups of 4 lanes. So an
// operand is made of pieces of 8 rows by 16 bytes, one register each: n is what 16 or 32 bytes hold.
#pragma once
#include "dsl/analysis/sum.h"
#include "dsl/base/result.h"
#include "dsl/ir/program.h"

namespace tw {

// Its value is 1, or kMayRound where floats may be rounded to the 11 bits that these instructions take of them (tf32). That is
// the one thing which changes a result, so lowering asks the workload (check_rounding).
inline constexpr std::string_view kWarpMmaMark = "warp_mma";
// Beside it: what the instruction so many behind this one multiplies is brought before this one. For code that is written out; ptxas does
// so by itself in short bodies only. 0 = not.
inline constexpr std::string_view kOperandsAheadMark = "operands_ahead";
inline constexpr i64 kMayRound = 2, kRoundedBits = 9;  // as precision_of counts: with some room for sums that are unlucky
inline constexpr i64 kMatrixRows = 8, kMatrixBytes = 16;  // of a piece of an operand

// What a warp multiplies: element (r, k) is at index + r * row_step + k * k_step, the same index for all lanes.
struct MmaOperand {
  const Load* load;
  Sum index;
  i64 row_step, k_step;
};
struct WarpMma {
  const Store* update;
  const Var *h, *e;
  MmaOperand a, b;  // 16 rows; 8 columns
  int pieces;       // along k: 1 or 2
};
// `threads`: the loop over all work-items of a group around the nest, a multiple of 32.
std::optional<WarpMma> match_warp_mma(const For* nest, const For* threads, const VarRanges& ranges);

// Of a program with blocks: rejects where a mark says that floats may be rounded, and the tolerance does not.
Status check_rounding(const Program& program);

}  // namespace tw
