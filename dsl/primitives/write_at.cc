// A block writes to a new buffer, which each iteration of a loop around it copies to the original at its end.
//   for i0 { for i1 { C[i0 * 4 + i1] = A[..] * 2 } }     write_at(i0, C, 0, "shared")
//   ->   for i0 { for i1 { C_shared[i0 * 4 + i1] = A[..] * 2 };  for a in 4 { C[i0 * 4 + a] = C_shared[i0 * 4 + a] } }
// Applies to a complete or reduction block that an iteration of the loop finishes and whose writes there fill a box
// that no block below the loop reads. The result is the new block. Source: WriteAt of TVM, whose copy is opaque until
// it is lowered.
#include "dsl/analysis/block_info.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(write_at, BlockId(LoopId loop, BlockId block, i64 write_index, Str scope))

static Result<BlockId> apply(State& state, LoopId loop_id, BlockId id, i64 write_index, Str scope_name) {
  TW_TRY(Path path, state.path_to(id));
  TW_TRY(const For* loop, state.loop(loop_id));
  const Block* block = static_cast<const Block*>(path.back());
  TW_TRY_STATUS(is_below(path, loop));
  TW_TRY(Scope scope, scope_named(state, scope_name));
  TW_TRY(const Buffer* buffer, buffer_at(block, buffers_written(block), write_index, "written"));
  TW_TRY_STATUS(is_complete_or_reduction(state.program().body, block));
  int at = path.index_of(loop);
  TW_TRY_STATUS(is_finished_in(path, at + 1, block));
  if (List<const Block*> readers = readers_of(loop, buffer); !readers.empty()) {
    return reject("block `{a}` below the loop reads `{b}`", readers[0]->name, buffer->name)
        .about_block(readers[0]->id.value)
        .about_loop(loop_id.value);
  }
  VarRanges around = ranges_to(path, at + 1);
  Region region = *region_of(state.arena(), loop->body, buffer, AccessKind::Write, around, block);
  if (!region.exact) {
    return reject("cannot prove that an iteration of loop `{b}` writes a whole box of `{a}`", buffer->name,
                  loop->var->name)
        .about_loop(loop_id.value);
  }
  const Buffer* cache = state.fresh_buffer(state.name(buffer->name, "_" + std::string(name_of(scope))), buffer->dtype,
                                           buffer->shape, scope);
  const Block* mover = copy_block(state, cache->name, cache, buffer, block);
  const Stmt* nest =
      nest_over(state, mover, region.dims, false, around, common_condition(state.build(), {block}, around));
  List<const Stmt*> children = children_of(loop);
  Program before = state.program();
  insert_after(state, children[last_child_with(children, {block})], nest);
  state.replace(block, replace_buffer(state.arena(), block, buffer, cache));
  state.add_local(cache);
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, mover->id, before));
  return mover->id;
}

REGISTER(write_at, "A block writes to a new buffer, which each iteration of a loop copies to the original at its end.")
