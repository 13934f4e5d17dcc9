// Blocks read a copy of a buffer, which a new block makes before them.
//   for i { C[i] = A[i] * 2 }     cache_read(C, 0, "local")
//   ->   for i { A_local[i] = A[i] };  for i { C[i] = A_local[i] * 2 }
// The given block names the buffer, and without `consumers` it alone reads the copy. With them it is read by exactly
// the blocks listed: the given one among them or not. The copy is made once, before the first of them, outside all
// loops in which nobody writes the buffer, over the box that they all read from there; its buffer has the shape and
// type of the original. Applies unless one of them writes what it reads, or stands outside of a loop in which the copy
// is made, or the box has elements that nobody writes. Under a predicate: the box may be larger than what is read,
// elements outside the buffer are kept out. The result is the new block. Source: CacheRead of TVM, where a call without
// consumers means all blocks that read the buffer.
#include "dsl/analysis/block_info.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(cache_read, BlockId(BlockId block, i64 read_index, Str scope, Blocks consumers = none))

// Can this block read a copy that is made before it?
static Status can_read_copy(const State& state, const Block* reader, const Buffer* buffer) {
  if (writes_buffer(reader, buffer))
    return reject("block `{a}` writes `{b}`, which it reads", reader->name, buffer->name).about_block(reader->id.value);
  TW_TRY_STATUS(is_written_before(state, reader, buffer));
  return reads_known_places(reader, buffer, is_param(state.program(), buffer));
}

// Everything that runs in one iteration of the loops around path[at]: the copy is made there.
static const Stmt* around_copy(const Path& path, int at) {
  return at > 0 && as<Seq>(path[at - 1]) ? path[at - 1] : path[at];
}

static Status are_below(const List<const Block*>& readers, const Path& path, int at) {
  for (const Block* reader : readers) {
    if (is_inside(around_copy(path, at), reader)) continue;
    int loop = at - 1;
    while (!as<For>(path[loop])) --loop;
    const For* around = static_cast<const For*>(path[loop]);
    return reject("block `{a}` is not below loop `{b}`, in whose iterations the buffer is written and copied",
                  reader->name, around->var->name)
        .about_block(reader->id.value)
        .about_loop(around->id.value);
  }
  return ok();
}

static Result<BlockId> apply(State& state, BlockId id, i64 read_index, Str scope_name, Blocks consumers) {
  TW_TRY(const Block* block, state.block(id));
  TW_TRY(Scope scope, scope_named(state, scope_name));
  TW_TRY(const Buffer* buffer, buffer_at(block, buffers_read(block), read_index, "read"));
  TW_TRY(List<const Block*> readers, consumers_named(state, consumers, buffer));
  if (readers.empty()) readers = {block};
  for (const Block* reader : readers) TW_TRY_STATUS(can_read_copy(state, reader, buffer));
  TW_TRY(Path path, state.path_to(readers[0]->id));
  int at = highest_without_writer(path, buffer);
  TW_TRY_STATUS(are_below(readers, path, at));

  VarRanges around = ranges_to(path, at);
  Region region = *region_of(state.arena(), around_copy(path, at), buffer, AccessKind::Read, around, readers);
  TW_TRY_STATUS(is_all_written(state, readers, region, path, at));
  const Buffer* copy = state.fresh_buffer(state.name(buffer->name, "_" + std::string(name_of(scope))), buffer->dtype,
                                          buffer->shape, scope);
  const Block* mover = of_what_is_written(state, copy_block(state, copy->name, buffer, copy, block), buffer);
  const Stmt* nest =
      nest_over(state, mover, region.dims, false, around, common_condition(state.build(), readers, around));
  Program before = state.program();
  insert_before(state, path[at], nest);
  for (const Block* reader : readers) state.replace(reader, redirect_loads(state.arena(), reader, buffer, copy));
  state.add_local(copy);
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, readers[0]->id, before));
  return mover->id;
}

REGISTER(cache_read, "Blocks read a copy of a buffer, which a new block makes before them.")
