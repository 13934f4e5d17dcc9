#include "dsl/analysis/dependence.h"

#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/iter_map.h"
#include "dsl/analysis/reducer.h"
#include "dsl/analysis/simplify.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

Status feeds_only_spatial(const Block* block, const For* loop) {
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    if (block->iters[i].kind == IterKind::R && uses(block->bindings[i], loop->var)) {
      return reject("loop `{a}` feeds the reduction iter `{b}`; expected it to feed only spatial iters",
                    loop->var->name, block->iters[i].var->name)
          .about_loop(loop->id.value)
          .about_block(block->id.value);
    }
  }
  return ok();
}

bool writes_depend_on(const Block* block, const Buffer* buffer, const For* loop) {
  List<const Var*> moving;
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    if (uses(block->bindings[i], loop->var)) moving.push_back(block->iters[i].var);
  }
  auto moves = [&](const Expr* index) {
    return std::any_of(moving.begin(), moving.end(), [&](const Var* var) { return uses(index, var); });
  };
  for (const Access& access : accesses_of(block)) {
    if (access.buffer != buffer || access.kind != AccessKind::Write) continue;
    if (std::none_of(access.indices.begin(), access.indices.end(), moves)) return false;
  }
  return true;
}

// Is the buffer used nowhere but below the loop?
bool is_private_to(const Program& program, const Buffer* buffer, const List<const Block*>& below) {
  if (is_param(program, buffer)) return false;
  for (const Block* block : blocks_in(program.body)) {
    if (std::find(below.begin(), below.end(), block) != below.end()) continue;
    if (writes_buffer(block, buffer) || reads_buffer(block, buffer)) return false;
  }
  return true;
}

// Do different iterations of the loop, within one iteration of those around, write different elements of the buffer?
bool writes_are_apart(Arena& arena, const Block* block, const Buffer* buffer, const For* loop,
                      const VarRanges& around) {
  VarRanges ranges = around;
  List<const Var*> fixed = around.variables();
  for_each<For>(loop, [&](const For* inside) {
    if (is_inside(inside, block)) ranges.set_extent(inside->var, inside->extent);
  });
  add_ranges(ranges, loops_inside(block));
  Substitution bindings;
  for (std::size_t i = 0; i < block->iters.size(); ++i) bindings.set(block->iters[i].var, block->bindings[i]);
  for (const Access& access : accesses_of(block)) {
    if (access.buffer != buffer || access.kind != AccessKind::Write) continue;
    // As written, the digits of one binding are seen to be that; simplified, terms go that cancel each other.
    List<const Expr*> indices;
    for (const Expr* index : access.indices) indices.push_back(substitute(arena, index, bindings));
    if (are_determined({loop->var}, indices, block->predicate, ranges, fixed)) continue;
    for (const Expr*& index : indices) index = simplify(arena, index, ranges);
    if (!are_determined({loop->var}, indices, block->predicate, ranges, fixed)) return false;
  }
  return true;
}

// Does a loop around, whose iterations a reduction runs over, go on with what the block left in the buffer an iteration
// ago: adds to it, or leaves it as it is?
bool adds_to_earlier_runs(const Block* block, const Buffer* buffer, const VarRanges& around) {
  bool reads_it = false;
  for_each<Load>(block->body, [&](const Load* load) { reads_it |= load->buffer == buffer; });
  auto feeds_reduction = [&](const Var* var) {
    for (std::size_t i = 0; i < block->iters.size(); ++i) {
      if (block->iters[i].kind == IterKind::R && uses(block->bindings[i], var)) return true;
    }
    return false;
  };
  List<const Var*> variables = around.variables();
  return std::any_of(variables.begin(), variables.end(), [&](const Var* var) {
    bool goes_on = reads_it || (block->predicate && uses(block->predicate, var));
    return goes_on && around.find(var)->max > 0 && feeds_reduction(var);
  });
}

// Has a block before it, in the same iteration of the loop, just written all that the block adds to?
bool is_filled_before(Arena& arena, const Block* block, const Buffer* buffer, const For* loop, VarRanges around) {
  VarRanges ranges = around;
  ranges.set_extent(loop->var, loop->extent);
  std::optional<Region> wanted = region_of(arena, loop->body, buffer, AccessKind::Write, ranges, block);
  for (const Block* writer : blocks_in(loop)) {
    if (writer == block) return false;
    if (!writes_buffer(writer, buffer) || reads_buffer(writer, buffer) || adds_to_earlier_runs(writer, buffer, around))
      continue;
    // promote fills a register tile under the predicate of the block that adds to it.
    if (buffer->scope == Scope::Register) return true;
    std::optional<Region> written = region_of(arena, loop->body, buffer, AccessKind::Write, ranges, writer);
    if (wanted && written && written->exact && contains(*written, *wanted, ranges)) return true;
  }
  return false;
}

// Is something carried from one run of the loop to the next in a buffer of which each iteration has its own?
Status carries_nothing(Arena& arena, const Program& program, const Block* block, const For* loop,
                       const VarRanges& around, const List<const Block*>& below) {
  for (const Buffer* buffer : buffers_written(block)) {
    if (!adds_to_earlier_runs(block, buffer, around) || !is_private_to(program, buffer, below)) continue;
    if (is_filled_before(arena, block, buffer, loop, around)) continue;
    return reject(
               "`{b}` is used in loop `{a}` alone, each iteration of which has its own, but a loop around adds to it",
               loop->var->name, buffer->name)
        .about_loop(loop->id.value)
        .about_block(block->id.value);
  }
  return ok();
}

// Loops that run more than once and write the same elements in each iteration.
int loops_that_repeat(const Block* writer, const Buffer* buffer, const List<const For*>& loops) {
  auto repeats = [&](const For* loop) { return loop->extent > 1 && !writes_depend_on(writer, buffer, loop); };
  return static_cast<int>(std::count_if(loops.begin(), loops.end(), repeats));
}

// Do the elements that a block reads never come from an iteration that may now run at another time? Either a block
// before it has just written all of them, or all writers keep to elements of their own iteration, up to `repeating`
// loops whose iterations stay in order.
bool reads_own_elements(Arena& arena, const Stmt* body, const List<const Block*>& blocks, const Block* reader,
                        const Buffer* buffer, const List<const For*>& fixed, const VarRanges& ranges, int repeating) {
  std::optional<Region> wanted = region_of(arena, body, buffer, AccessKind::Read, ranges, reader);
  if (!wanted) return true;
  bool is_before = true, all_own = true, covered = false;
  for (const Block* writer : blocks) {
    is_before = is_before && writer != reader;
    if (!writes_buffer(writer, buffer)) continue;
    all_own = all_own && loops_that_repeat(writer, buffer, fixed) <= repeating;
    std::optional<Region> written = region_of(arena, body, buffer, AccessKind::Write, ranges, writer);
    bool covers = written && written->exact && contains(*written, *wanted, ranges);
    if (covers && is_before) return true;
    covered = covered || covers;
  }
  return covered && all_own;
}

// Is it in registers, of which each work-item has its own, and does each iteration write what it reads before it does?
bool is_each_items_own(Arena& arena, const Program& program, const Buffer* buffer, const For* loop, VarRanges around,
                       const List<const Block*>& below) {
  bool is_local = buffer->scope == Scope::Local || buffer->scope == Scope::Register;
  if (!is_local || !is_private_to(program, buffer, below)) return false;
  around.set_extent(loop->var, loop->extent);
  return std::all_of(below.begin(), below.end(), [&](const Block* block) {
    if (writes_buffer(block, buffer))
      return !reads_buffer(block, buffer) && !(block->predicate && uses(block->predicate, loop->var));
    return !reads_buffer(block, buffer) ||
           reads_own_elements(arena, loop->body, below, block, buffer, {loop}, around, 0);
  });
}

Status check_writes(Arena& arena, const Program& program, const For* loop, const VarRanges& around,
                    bool private_buffers) {
  List<const Block*> below = blocks_in(loop);
  for (const Block* block : below) {
    TW_TRY_STATUS(feeds_only_spatial(block, loop));
    TW_TRY_STATUS(carries_nothing(arena, program, block, loop, around, below));
    if (loop->extent == 1) continue;
    for (const Buffer* buffer : buffers_written(block)) {
      if (private_buffers && is_private_to(program, buffer, below)) continue;
      if (writes_are_apart(arena, block, buffer, loop, around)) continue;
      if (is_each_items_own(arena, program, buffer, loop, around, below)) continue;
      return reject("several iterations of loop `{a}` may write the same elements of `{b}`", loop->var->name,
                    buffer->name)
          .about_loop(loop->id.value)
          .about_block(block->id.value);
    }
  }
  return ok();
}

// A block of several statements may hand on what it writes from point to point.
Status keep_nothing(const List<const Block*>& blocks, const For* loop) {
  for (const Block* block : blocks) {
    if (!is_composite(block)) continue;
    for (const Buffer* buffer : buffers_read(block)) {
      if (!writes_buffer(block, buffer)) continue;
      return reject("block `{a}` reads elements of `{b}` that may come from another iteration", block->name,
                    buffer->name)
          .about_block(block->id.value)
          .about_loop(loop->id.value);
    }
  }
  return ok();
}

Status check_reads(Arena& arena, const Stmt* body, const List<const For*>& fixed, VarRanges around, int repeating) {
  List<const Block*> blocks = blocks_in(body);
  TW_TRY_STATUS(keep_nothing(blocks, fixed.back()));
  if (blocks.size() < 2) return ok();
  for (const For* loop : fixed) around.set_extent(loop->var, loop->extent);
  for (const Block* reader : blocks) {
    for (const Buffer* buffer : buffers_read(reader)) {
      auto writes = [&](const Block* block) { return block != reader && writes_buffer(block, buffer); };
      if (std::none_of(blocks.begin(), blocks.end(), writes)) continue;
      // promote fills a register tile, under the predicate of its readers, in the iteration that reads it.
      if (buffer->scope == Scope::Register) continue;
      if (!reads_own_elements(arena, body, blocks, reader, buffer, fixed, around, repeating)) {
        return reject("block `{a}` reads elements of `{b}` that may come from another iteration", reader->name,
                      buffer->name)
            .about_block(reader->id.value)
            .about_loop(fixed.back()->id.value);
      }
    }
  }
  return ok();
}

}  // namespace

Status iterations_may_be_permuted(Arena& arena, const Stmt* body, const List<const For*>& loops,
                                  const VarRanges& around) {
  return check_reads(arena, body, loops, around, 1);
}

Status iterations_may_overlap(Arena& arena, const Program& program, const For* loop, const VarRanges& around) {
  TW_TRY_STATUS(check_writes(arena, program, loop, around, true));
  return check_reads(arena, loop->body, {loop}, around, 0);
}

Status iterations_may_interleave(Arena& arena, const Program& program, const For* loop, const VarRanges& around) {
  TW_TRY_STATUS(check_writes(arena, program, loop, around, false));
  return check_reads(arena, loop->body, {loop}, around, 0);
}

Status work_items_may_combine(const For* loop) {
  const Block* block = as<Block>(loop->body);
  if (!block) {
    return reject("loop `{a}` of a reduction is not directly around its block", loop->var->name)
        .about_loop(loop->id.value);
  }
  const Store* update = as<Store>(block->body);
  std::optional<Reducer> reducer = reducer_of(block);
  if (!reducer || !update || !combined_loads(update)) {
    return reject("work-items cannot combine the terms of block `{a}`: expected a known reduction of loads",
                  block->name)
        .about_block(block->id.value);
  }
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    if (block->iters[i].kind == IterKind::S && uses(block->bindings[i], loop->var))
      return reject("loop `{a}` feeds spatial and reduction iters of block `{b}`", loop->var->name, block->name)
          .about_loop(loop->id.value);
  }
  for (const StoreTarget& target : update->targets) {
    if (target.buffer->scope == Scope::Local || target.buffer->scope == Scope::Register)
      return reject("`{a}` is in scope {b}, where each work-item has its own; work-items that combine need one",
                    target.buffer->name, Str(name_of(target.buffer->scope)))
          .about_block(block->id.value);
  }
  return ok();
}

}  // namespace tw
