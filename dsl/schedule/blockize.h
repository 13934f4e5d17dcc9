// Loop nests as single blocks: what blockize and tensorize share.
#pragma once
#include "dsl/schedule/nest.h"

namespace tw {

// The loop and everything below it, one chain of loops around one block, becomes one block over
// tiles: each iter of the block inside splits into a tile number, which the new block has as its
// iter, and a place in the tile, over which loops inside the new block run. The block and the loops
// lose their handles. Without preserve_unit_iters the new block has no S iters of extent 1; R iters
// stay, because an init runs where they are 0.
Result<BlockId> blockize_loop(State& state, LoopId id, bool preserve_unit_iters);

// Neighbouring blocks, each in its own chain of loops, become one block whose iters are the loops
// around all of them; without preserve_unit_iters those of more than one iteration.
Result<BlockId> blockize_blocks(State& state, const List<BlockId>& ids, bool preserve_unit_iters);

}  // namespace tw
