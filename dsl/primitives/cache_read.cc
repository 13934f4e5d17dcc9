// A block reads a copy of a buffer, which a new block makes before it.
//   for i { C[i] = A[i] * 2 }     cache_read(C, 0, "local")
//   ->   for i { A_local[i] = A[i] };  for i { C[i] = A_local[i] * 2 }
// The copy is made outside all loops in which nobody writes the buffer, over the box that the block reads from there;
// its buffer has the shape and type of the original. Only the given block reads it. Applies unless the block writes
// what it reads. Under a predicate: the box may be larger than what is read, elements outside the buffer are kept out.
// The result is the new block.
#include "dsl/analysis/block_info.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(cache_read, BlockId(BlockId block, i64 read_index, Str scope))

static Result<BlockId> apply(State& state, BlockId id, i64 read_index, Str scope_name) {
  TW_TRY(Path path, state.path_to(id));
  const Block* block = static_cast<const Block*>(path.back());
  TW_TRY(Scope scope, scope_named(state, scope_name));
  TW_TRY(const Buffer* buffer, buffer_at(block, buffers_read(block), read_index, "read"));
  int at = highest_without_writer(path, buffer);
  if (at < 0)
    return reject("block `{a}` writes `{b}`, which it reads", block->name, buffer->name).about_block(id.value);
  TW_TRY_STATUS(is_written_before(state, block, buffer));
  TW_TRY_STATUS(reads_known_places(block, buffer, is_param(state.program(), buffer)));

  VarRanges around = ranges_to(path, at);
  Region region = *region_of(state.arena(), path[at], buffer, AccessKind::Read, around, block);
  const Buffer* copy = state.fresh_buffer(state.name(buffer->name, "_" + std::string(name_of(scope))), buffer->dtype,
                                          buffer->shape, scope);
  const Block* mover = of_what_is_written(state, copy_block(state, copy->name, buffer, copy, block), buffer);
  const Stmt* nest =
      nest_over(state, mover, region.dims, false, around, common_condition(state.build(), {block}, around));
  Program before = state.program();
  insert_before(state, path[at], nest);
  state.replace(block, redirect_loads(state.arena(), block, buffer, copy));
  state.add_local(copy);
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, id, before));
  return mover->id;
}

REGISTER(cache_read, "A block reads a copy of a buffer, which a new block makes before it.")
