// The loops around a block, outermost first.
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(get_loops, Loops(BlockId block))

static Result<Loops> apply(const State& state, BlockId block) {
  TW_TRY(Array<const For*> loops, state.loops_around(block));
  List<LoopId> ids;
  for (const For* loop : loops) ids.push_back(loop->id);
  return Loops(state.arena().copy(ids));
}

REGISTER(get_loops, "The loops around a block, outermost first.", .extents = Meaning::Extents::Listed)
