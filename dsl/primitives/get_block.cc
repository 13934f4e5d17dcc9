// The block with this name. Rejects if there is none (or more than one).
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(get_block, BlockId(Str name))

static Result<BlockId> apply(const State& state, Str name) {
  for (const Block* block : state.blocks()) {
    if (block->name == name) return block->id;
  }
  return reject("there is no block named `{a}`", name);
}

REGISTER(get_block, "The block with this name.")
