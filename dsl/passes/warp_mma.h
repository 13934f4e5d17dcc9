// Nests that the lanes of a warp can do together by one matrix instruction, which is an intrinsic of several lanes
// (dsl/intrinsics/matrix_instructions.tw). Used by the printer of CUDA C. The mark kWarpMmaMark stands on the outermost
// of loops
//   for h in 2 { for e in 2 { for k in n { C[..] = C[..] + wide(A[..]) * wide(B[..]) } } }
// of which each lane t makes its own part of a tile of sums, which the intrinsic's layout says: e.g. rows t // 4 % 8 +
// 8 * h, columns t % 4 * 2 + e. The loops stay the meaning: what no intrinsic does is printed as loops, so that a wrong
// mark does no harm. The mark kWarpgroupMmaMark stands on nests of an instruction of four warps (wgmma).
#pragma once
#include "dsl/analysis/sum.h"
#include "dsl/base/result.h"
#include "dsl/intrinsics/intrinsic.h"
#include "dsl/ir/program.h"

namespace tw {

// Its value is 1, or kMayRound where floats may be rounded to the 11 bits that these instructions take of them (tf32).
// That is the one thing which changes a result, so lowering asks the workload (check_rounding).
inline constexpr std::string_view kWarpMmaMark = "warp_mma";
inline constexpr std::string_view kWarpgroupMmaMark = "warpgroup_mma";
// Either of these marks; null = the loop has none.
const Annotation* find_mma_mark(const For* loop);
// Beside it: what the instruction so many behind this one multiplies is brought before this one. For code that is
// written out; ptxas does so by itself in short bodies only. 0 = not.
inline constexpr std::string_view kOperandsAheadMark = "operands_ahead";
inline constexpr i64 kMayRound = 2,
                     kRoundedBits = 9;  // as precision_of counts: with some room for sums that are unlucky

// What a warp multiplies: the element with indices (r, k) in the intrinsic's description is at index + r * steps[0] + k
// * steps[1], the same index for all lanes. Of one that is read in shared memory, whose memory runs along r, each
// kBlockRows of r may be a block of its own: then that element is at index + r % kBlockRows + r // kBlockRows * block +
// k * steps[1].
struct MmaOperand {
  static constexpr i64 kBlockRows = 64;

  const Buffer* buffer;
  const Intrinsic* intrinsic;
  std::size_t parameter;  // of its description
  Sum index;
  std::vector<i64> steps;
  i64 block = 0;  // 0 = there are no blocks

  const LaneLayout& layout() const { return intrinsic->holds[parameter]; }
  bool is_in_shared() const { return layout().is_empty(); }
  // How far it lies along a dimension of the description.
  i64 distance(std::size_t dimension, i64 by) const {
    return block > 0 && steps[dimension] == 1 ? by % kBlockRows + by / kBlockRows * block : by * steps[dimension];
  }
};
// A loop of the nest and how far it has got where this bit of the number of a lane's sum is set.
struct MmaSumBit {
  const Var* loop;
  i64 value;
};
struct WarpMma {
  const Intrinsic* intrinsic;
  const Store* update;
  std::vector<MmaSumBit> sum_bits;
  std::vector<MmaOperand> inputs;  // in the order of the description's parameters
};
// `threads`: the loop over all work-items of a group around the nest, a multiple of the lanes. `gpu`: its architecture,
// "sm_80";
// "" = any. Its indices live in the arena.
std::optional<WarpMma> match_warp_mma(Arena& arena, const For* nest, const For* threads, const VarRanges& ranges,
                                      std::string_view gpu);

// Of a program with blocks: rejects where a mark says that floats may be rounded, and the tolerance does not.
Status check_rounding(const Program& program);

}  // namespace tw
