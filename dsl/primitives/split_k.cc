// The sum of a block is cut into parts that are computed apart, along a loop of their own outside of the block's
// others, and summed up by a second block.
//   for i { for j { for k in 64 { C[i, j] += A[i, k] * B[k, j] } } }     split_k(k, 4)
//   ->   for k_0 in 4 { for i { for j { for k_1 in 16 { C_rf[k_0, i, j] += A[i, k_0 * 16 + k_1] * ... } } } };
//        for i { for j { for k_0 in 4 { C[i, j] += C_rf[k_0, i, j] } } }
// Applies where `rfactor` does, to a loop that the parts divide. It is split, rfactor and reorder in one: the parts are
// a dimension like that of a batch, outermost in loops, iters and the new buffer, so rules for batched products go on
// from there. The order of the terms changes. The result is the block of the parts. Source: split-K of CUTLASS, with a
// second kernel for the sum.
#include "dsl/analysis/block_info.h"
#include "dsl/schedule/nest.h"
#include "dsl/schedule/steps.h"

using namespace tw;

PRIMITIVE(split_k, BlockId(LoopId loop, i64 parts))

namespace {

// The iters in order, but the one that is bound to the loop first.
Ints with_first(Arena& arena, const Block* block, const For* loop) {
  List<i64> order;
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    auto at = static_cast<i64>(i);
    order.insert(block->bindings[i] == loop->var ? order.begin() : order.end(), at);
  }
  return arena.copy(order);
}

}  // namespace

static Result<BlockId> apply(State& state, LoopId id, i64 parts) {
  TW_TRY(const For* loop, state.loop(id));
  if (parts < 1 || loop->extent % parts != 0) {
    return reject("{0} parts do not divide loop `{a}` of extent {1}", loop->var->name, parts, loop->extent)
        .about_loop(id.value);
  }
  TW_TRY(Loops cut, steps::split(state, id, {state.arena().list<i64>({parts, Factors::kHole})}));
  TW_TRY(BlockId partial, steps::rfactor(state, cut[0], 0));
  TW_TRY(Path path, state.path_to(partial));
  int top = path.index_of(top_of_own_nest(path)), part = path.index_of(state.find_loop(cut[0]));
  List<LoopId> order{cut[0]};
  for (int i = top; i < part; ++i) {
    if (const For* outer = as<For>(path[i])) order.push_back(outer->id);
  }
  TW_TRY_STATUS(steps::reorder(state, state.arena().copy(order)));
  TW_TRY_STATUS(steps::reorder_block_iter_var(
      state, partial, with_first(state.arena(), state.find_block(partial), state.find_loop(cut[0]))));
  return partial;
}

REGISTER(split_k,
         "The sum of a block is cut into parts that are computed apart, outermost, and summed up by a second block.")
