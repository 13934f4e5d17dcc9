// The blocks that read what this block writes, in program order.
#include "dsl/analysis/block_info.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(get_consumers, Blocks(BlockId block))

static Result<Blocks> apply(const State& state, BlockId id) {
  TW_TRY(const Block* block, state.block(id));
  List<BlockId> ids;
  for (const Block* other : consumers(state.program().body, block)) ids.push_back(other->id);
  return Blocks(state.arena().copy(ids));
}

REGISTER(get_consumers, "The blocks that read what this block writes, in program order.")
