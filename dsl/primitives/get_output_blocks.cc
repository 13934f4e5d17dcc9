// The blocks that write outputs of the program, in program order. Programs have no block around
// everything, so there is no argument that names the scope.
#include "dsl/analysis/block_info.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(get_output_blocks, Blocks())

static Result<Blocks> apply(const State& state) {
  List<BlockId> ids;
  for (const Block* block : blocks_in(state.program().body)) {
    if (is_output_block(state.program(), block)) ids.push_back(block->id);
  }
  return Blocks(state.arena().copy(ids));
}

REGISTER(get_output_blocks, "The blocks that write outputs of the program, in program order.")
