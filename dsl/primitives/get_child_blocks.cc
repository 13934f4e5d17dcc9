// The blocks below a loop, in program order; a block has no others inside it.
#include "dsl/analysis/block_info.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(get_child_blocks, Blocks(LoopId loop))

static Result<Blocks> apply(const State& state, LoopId id) {
  TW_TRY(const For* loop, state.loop(id));
  List<BlockId> ids;
  for (const Block* block : blocks_in(loop)) ids.push_back(block->id);
  return Blocks(state.arena().copy(ids));
}

REGISTER(get_child_blocks, "The blocks below a loop, in program order.")
