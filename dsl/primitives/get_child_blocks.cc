// The blocks below a loop, in program order. A block has none: what blockize joins is one block, and the blocks that it
// was made of are no longer there.
#include "dsl/analysis/block_info.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(get_child_blocks, Blocks(LoopOrBlock at))

static Result<Blocks> apply(const State& state, LoopOrBlock at) {
  if (!at.loop.value) {
    TW_TRY_STATUS(state.block(at.block));
    return Blocks{};
  }
  TW_TRY(const For* loop, state.loop(at.loop));
  List<BlockId> ids;
  for (const Block* block : blocks_in(loop)) ids.push_back(block->id);
  return Blocks(state.arena().copy(ids));
}

REGISTER(get_child_blocks, "The blocks below a loop, in program order; a block has none.")
