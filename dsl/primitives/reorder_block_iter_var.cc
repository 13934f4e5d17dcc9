// Permutes the iters of a block; loops and bindings stay as they are.
//   block D(i = i, j = j, k = k)     reorder_block_iter_var(D, [2, 0, 1])   ->   block D(k = k, i =
//   i, j = j)
// new_order[n] is the old position of the n-th iter: a permutation of 0, 1, ... It matters to what
// goes by the order of iters: index maps of transform_block_layout, padding of pad_einsum, loops
// that compute_at makes (source: TensorIR).
#include <algorithm>
#include <numeric>

#include "dsl/schedule/steps.h"

using namespace tw;

PRIMITIVE(reorder_block_iter_var, Unit(BlockId block, Ints new_order))

static Result<Unit> apply(State& state, BlockId id, Ints new_order) {
  TW_TRY(const Block* block, state.block(id));
  i64 count = static_cast<i64>(block->iters.size()), found = static_cast<i64>(new_order.size());
  if (found != count) {
    return reject("block `{a}` has {0} iters, the new order lists {1}", block->name, count, found)
        .about_block(id.value);
  }
  List<i64> sorted(new_order.begin(), new_order.end()), all(sorted.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) {
    return reject("the new order of the iters of block `{a}` is no permutation of 0 to {0}", block->name, count - 1)
        .about_block(id.value);
  }
  List<IterVar> iters;
  List<const Expr*> bindings;
  for (i64 old : new_order) {
    iters.push_back(block->iters[static_cast<std::size_t>(old)]);
    bindings.push_back(block->bindings[static_cast<std::size_t>(old)]);
  }
  Block* changed = state.arena().make<Block>(*block);
  changed->iters = state.arena().copy(iters);
  changed->bindings = state.arena().copy(bindings);
  state.replace(block, changed);
  return Unit{};
}

Status tw::steps::reorder_block_iter_var(State& state, BlockId block, Ints new_order) {
  return apply(state, block, new_order);
}

REGISTER(reorder_block_iter_var, "Permutes the iters of a block; loops and bindings stay as they are.")
