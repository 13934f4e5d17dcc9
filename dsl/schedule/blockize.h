// Loop nests as single blocks: what blockize and tensorize share.
#pragma once
#include "dsl/schedule/nest.h"

namespace tw {

// The loop and everything below it, one chain of loops around one block, becomes one block over
// tiles: each iter of the block inside splits into a tile number, which the new block has as its
// iter, and a place in the tile, over which loops inside the new block run. The block and the loops
// lose their handles.
Result<BlockId> blockize_loop(State& state, LoopId id);

// Neighbouring blocks, each in its own chain of loops, become one block whose iters are the loops
// around all of them.
Result<BlockId> blockize_blocks(State& state, const List<BlockId>& ids);

}  // namespace tw
