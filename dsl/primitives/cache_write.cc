// A block writes to a new buffer, which a new block copies to the original afterwards.
//   for i { C[i] = A[i] * 2 }     cache_write(C, 0, "local")
//   ->   for i { C_local[i] = A[i] * 2 };  for i { C[i] = C_local[i] }
// The copy is made outside all loops in which nobody else reads the buffer, over the box that the block writes from
// there; the new buffer has the shape and type of the original. Blocks listed as `consumers` read the new buffer from
// then on, the others still the original; without a list all read the original. Applies to a complete or reduction
// block whose writes fill a box. Under a predicate: the copy has the same tails. The result is the new block. Source:
// CacheWrite of TVM.
#include "dsl/analysis/block_info.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/steps.h"

using namespace tw;

PRIMITIVE(cache_write, BlockId(BlockId block, i64 write_index, Str scope, Blocks consumers = none))

static Result<BlockId> apply(State& state, BlockId id, i64 write_index, Str scope_name, Blocks consumers) {
  TW_TRY(Path path, state.path_to(id));
  const Block* block = static_cast<const Block*>(path.back());
  TW_TRY(Scope scope, scope_named(state, scope_name));
  TW_TRY(const Buffer* buffer, buffer_at(block, buffers_written(block), write_index, "written"));
  TW_TRY_STATUS(is_complete_or_reduction(state.program().body, block));
  TW_TRY(List<const Block*> readers, consumers_named(state, consumers, buffer));
  int at = highest_without_reader(path, buffer, readers);
  VarRanges around = ranges_to(path, at);
  Region region = *region_of(state.arena(), path[at], buffer, AccessKind::Write, around, block);
  if (!region.exact) {
    return reject("cannot prove that block `{a}` writes a whole box of `{b}`", block->name, buffer->name)
        .about_block(id.value);
  }

  const Buffer* cache = state.fresh_buffer(state.name(buffer->name, "_" + std::string(name_of(scope))), buffer->dtype,
                                           buffer->shape, scope);
  const Block* mover = copy_block(state, cache->name, cache, buffer, block);
  const Stmt* nest =
      nest_over(state, mover, region.dims, false, around, common_condition(state.build(), {block}, around));
  Program before = state.program();
  insert_after(state, path[at], nest);
  state.replace(block, replace_buffer(state.arena(), block, buffer, cache));
  for (const Block* reader : readers) state.replace(reader, redirect_loads(state.arena(), reader, buffer, cache));
  state.add_local(cache);
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, id, before));
  return mover->id;
}

Result<BlockId> tw::steps::cache_write(State& state, BlockId block, i64 write_index, Str scope, Blocks consumers) {
  return apply(state, block, write_index, scope, consumers);
}

REGISTER(cache_write, "A block writes to a new buffer, which a new block copies to the original afterwards.")
