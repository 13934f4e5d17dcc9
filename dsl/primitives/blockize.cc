// Makes one block of a loop nest, or of neighbouring blocks: a unit that is moved, cached and
// tensorized as a whole.
//   for io { for ii in 4 { B[io * 4 + ii] } }     blockize(ii)   ->   for io { B_o[io]: for ii in 4
//   { B[io * 4 + ii] } } for i { { B[i] }; { C[i] } }     blockize(B, [C])   ->   for i { C_o[i]:
//   B[i]; C[i] }
// Of a loop: applies if below it is one chain of loops around one block, each iter of which runs
// over whole tiles there (also of size 1: all iters stay, those of one tile too unless
// preserve_unit_iters is false), and no condition depends on loops there.
// The init of a reduction runs for the whole tile. Of blocks: applies to neighbours in one
// sequence, each in a chain of its own loops, without conditions, whose reductions are finished
// there. Loops inside are serial, unrolled or vectorized. The result is the new block; the blocks
// and loops inside lose their handles. Source: Blockize of TensorIR.
#include "dsl/schedule/blockize.h"

#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(blockize, BlockId(LoopOrBlock at, Blocks others = none, bool preserve_unit_iters = true))

static Result<BlockId> apply(State& state, LoopOrBlock at, Blocks others, bool preserve_unit_iters) {
  if (at.loop.value) {
    if (others.empty()) return blockize_loop(state, at.loop, preserve_unit_iters);
    return reject("expected a loop alone, or several blocks");
  }
  if (others.empty()) return reject("expected a loop, or several blocks");
  List<BlockId> ids{at.block};
  ids.insert(ids.end(), others.begin(), others.end());
  return blockize_blocks(state, ids, preserve_unit_iters);
}

REGISTER(blockize,
         "One block of a loop nest, or of neighbouring blocks: a unit that is moved and tensorized "
         "as a whole.")
