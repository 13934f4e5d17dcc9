// All blocks below a loop read a copy of a buffer that each iteration of the loop makes first.
//   for i0 { for i1 { C[i0 * 4 + i1] = A[i0 * 4 + i1] * 2 } }     read_at(i0, C, 0, "shared")
//   ->   for i0 { for a in 4 { A_shared[i0 * 4 + a] = A[..] };  for i1 { C[i0 * 4 + i1] = A_shared[i0 * 4 + i1] * 2 } }
// The buffer is named by a block below the loop that reads it. Applies if nobody below the loop writes it and all
// writers come first. The copy has the box that all readers below need in one iteration, and is made directly before
// the first of them. The result is the new block, whose loops can be bound and vectorized for a cooperative copy.
// Source: ReadAt of TVM, whose copy is opaque until it is lowered.
#include "dsl/analysis/block_info.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(read_at, BlockId(LoopId loop, BlockId block, i64 read_index, Str scope))

static Result<BlockId> apply(State& state, LoopId loop_id, BlockId id, i64 read_index, Str scope_name) {
  TW_TRY(Path path, state.path_to(id));
  TW_TRY(const For* loop, state.loop(loop_id));
  const Block* block = static_cast<const Block*>(path.back());
  TW_TRY_STATUS(is_below(path, loop));
  TW_TRY(Scope scope, scope_named(state, scope_name));
  TW_TRY(const Buffer* buffer, buffer_at(block, buffers_read(block), read_index, "read"));
  List<const Block*> writers = writers_of(loop, buffer), readers = readers_of(loop, buffer);
  if (!writers.empty()) {
    return reject("block `{a}` below the loop writes `{b}`", writers[0]->name, buffer->name)
        .about_block(writers[0]->id.value)
        .about_loop(loop_id.value);
  }
  for (const Block* reader : readers) {
    TW_TRY_STATUS(is_written_before(state, reader, buffer));
    TW_TRY_STATUS(reads_known_places(reader, buffer, is_param(state.program(), buffer)));
  }

  int at = path.index_of(loop) + 1;
  VarRanges around = ranges_to(path, at);
  Region region = *region_of(state.arena(), loop->body, buffer, AccessKind::Read, around);
  TW_TRY_STATUS(is_all_written(state, readers, region, path, at));
  const Buffer* copy = state.fresh_buffer(state.name(buffer->name, "_" + std::string(name_of(scope))), buffer->dtype,
                                          buffer->shape, scope);
  const Block* mover = of_what_is_written(state, copy_block(state, copy->name, buffer, copy, block), buffer);
  const Stmt* nest =
      nest_over(state, mover, region.dims, false, around, common_condition(state.build(), readers, around));
  List<const Stmt*> children = children_of(loop);
  Program before = state.program();
  insert_before(state, children[first_child_with(children, readers)], nest);
  for (const Block* reader : readers) state.replace(reader, redirect_loads(state.arena(), reader, buffer, copy));
  state.add_local(copy);
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, mover->id, before));
  return mover->id;
}

REGISTER(read_at, "All blocks below a loop read a copy of a buffer that each iteration of the loop makes first.")
