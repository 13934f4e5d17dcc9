// A block that updates a buffer in place works on a copy, made before and written back afterwards.
//   for k { for i { C[i] += A[i, k] } }     cache_inplace(C, 0, "local")
//   ->   for i { C_local[i] = C[i] };  for k { for i { C_local[i] += A[i, k] } };  for i { C[i] = C_local[i] }
// Applies to a block without init (a decomposed reduction) that reads and writes the buffer at the same indices, which
// fill a box. Both copies are made outside all loops in which nobody else touches the buffer. The results are the block
// that fills the copy and the one that empties it. Source: CacheInplace of TVM.
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(cache_inplace, Blocks(BlockId block, i64 write_index, Str scope))

static Status updates_in_place(const Block* block, const Buffer* buffer) {
  if (block->init) {
    return reject("block `{a}` initialises `{b}` itself: cache_write is enough", block->name, buffer->name)
        .about_block(block->id.value);
  }
  if (!loads_of(block, buffer)) {
    return reject("block `{a}` writes `{b}` but does not read it", block->name, buffer->name)
        .about_block(block->id.value);
  }
  if (is_composite(block)) {
    return reject("block `{a}` has several statements; expected one that updates `{b}`", block->name, buffer->name)
        .about_block(block->id.value);
  }
  TW_TRY_STATUS(only_indices(block, buffer));
  return ok();
}

// Index in the path of the highest statement around the block in which no other block touches the buffer.
static int highest_alone(const Path& path, const Block* block, const Buffer* buffer) {
  auto is_shared = [&](const Stmt* stmt) {
    List<const Block*> all = blocks_in(stmt);
    return std::any_of(all.begin(), all.end(), [&](const Block* other) {
      return other != block && (writes_buffer(other, buffer) || reads_buffer(other, buffer));
    });
  };
  int at = 0;
  while (as<Seq>(path[at]) || is_shared(path[at])) ++at;
  return at;
}

static Result<Blocks> apply(State& state, BlockId id, i64 write_index, Str scope_name) {
  TW_TRY(Path path, state.path_to(id));
  const Block* block = static_cast<const Block*>(path.back());
  TW_TRY(Scope scope, scope_named(state, scope_name));
  TW_TRY(const Buffer* buffer, buffer_at(block, buffers_written(block), write_index, "written"));
  TW_TRY_STATUS(updates_in_place(block, buffer));
  int at = highest_alone(path, block, buffer);
  VarRanges around = ranges_to(path, at);
  Region region = *region_of(state.arena(), path[at], buffer, AccessKind::Write, around, block);
  if (!region.exact) {
    return reject("cannot prove that block `{a}` writes a whole box of `{b}`", block->name, buffer->name)
        .about_block(id.value);
  }
  const Buffer* copy = state.fresh_buffer(state.name(buffer->name, "_" + std::string(name_of(scope))), buffer->dtype,
                                          buffer->shape, scope);
  const Expr* condition = common_condition(state.build(), {block}, around);
  const Block* fill = copy_block(state, state.name(copy->name, "_load"), buffer, copy, block);
  const Block* empty = copy_block(state, state.name(copy->name, "_store"), copy, buffer, block);
  const Stmt* before_it = nest_over(state, fill, region.dims, false, around, condition);
  const Stmt* after_it = nest_over(state, empty, region.dims, false, around, condition);
  Program before = state.program();
  state.replace(path[at], state.build().seq({before_it, path[at], after_it}));
  state.replace(block, replace_buffer(state.arena(), block, buffer, copy));
  state.add_local(copy);
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, id, before));
  return Blocks(state.arena().list<BlockId>({fill->id, empty->id}));
}

REGISTER(cache_inplace,
         "A block that updates a buffer in place works on a copy, made before and written back afterwards.")
