#include "dsl/schedule/move.h"

#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/bounds.h"
#include "dsl/analysis/dependence.h"
#include "dsl/analysis/iter_map.h"
#include "dsl/analysis/reducer.h"

namespace tw {

int order_of(const List<const Block*>& order, const Block* block) {
  return static_cast<int>(std::find(order.begin(), order.end(), block) - order.begin());
}
int first_order(const List<const Block*>& order, const Stmt* stmt) { return order_of(order, blocks_in(stmt).front()); }
int last_order(const List<const Block*>& order, const Stmt* stmt) { return order_of(order, blocks_in(stmt).back()); }

Result<bool> is_first_position(const State& state, Str position) {
  if (position == "first" || position == "last") return position == "first";
  return reject("expected position \"first\" or \"last\", found \"{a}\"", state.arena().text(position));
}

List<const Stmt*> children_of(const For* loop) {
  const Seq* seq = as<Seq>(loop->body);
  if (!seq) return {loop->body};
  return {seq->stmts.begin(), seq->stmts.end()};
}

namespace {

bool contains_any(const Stmt* stmt, const List<const Block*>& blocks) {
  for (const Block* inside : blocks_in(stmt)) {
    if (std::find(blocks.begin(), blocks.end(), inside) != blocks.end()) return true;
  }
  return false;
}

}  // namespace

int first_child_with(const List<const Stmt*>& children, const List<const Block*>& blocks) {
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (contains_any(children[i], blocks)) return static_cast<int>(i);
  }
  return -1;
}

int last_child_with(const List<const Stmt*>& children, const List<const Block*>& blocks) {
  for (std::size_t i = children.size(); i-- > 0;) {
    if (contains_any(children[i], blocks)) return static_cast<int>(i);
  }
  return -1;
}

namespace {

// Does the index depend on memory? What is said to be within a box is taken as known, if it may.
bool looks_up(const Expr* index, bool boxes_count) {
  bool found = false;
  walk(index, [&](const Node* node) {
    bool boxed = as_within(node) != nullptr;
    found |= node->kind == Kind::Load || (boxed && !boxes_count);
    return !found && !boxed;
  });
  return found;
}

}  // namespace

Status reads_known_places(const Block* block, const Buffer* buffer, bool boxes_count) {
  for (const Access& access : accesses_of(block)) {
    if (access.buffer != buffer || access.kind != AccessKind::Read) continue;
    for (const Expr* index : access.indices) {
      if (!looks_up(index, boxes_count)) continue;
      if (as_within(index)) {
        return reject("block `{a}` reads `{b}` somewhere in a box, parts of which may not be written", block->name,
                      buffer->name)
            .about_block(block->id.value);
      }
      return reject("block `{a}` looks up in memory where it reads `{b}`", block->name, buffer->name)
          .about_block(block->id.value);
    }
  }
  return ok();
}

Status is_outside(const Path& from, const For* loop, const Block* block) {
  if (from.index_of(loop) < 0) return ok();
  return reject("block `{a}` is already below loop `{b}`", block->name, loop->var->name)
      .about_block(block->id.value)
      .about_loop(loop->id.value);
}

Status reads_what_is_before(const State& state, const Block* block) {
  List<const Block*> order = blocks_in(state.program().body);
  int own = order_of(order, block);
  for (const Block* producer : producers(state.program().body, block)) {
    if (order_of(order, producer) > own) {
      return reject("block `{a}` reads what block `{b}` writes only later", block->name, producer->name)
          .about_block(block->id.value)
          .about_block(producer->id.value);
    }
  }
  return ok();
}

Status init_can_be_before(const Block* block, const For* loop) {
  const Block* found = nullptr;
  for_each<Load>(block->init, [&](const Load* load) {
    for (const Block* writer : writers_of(loop, load->buffer)) {
      if (writer != block) found = writer;
    }
  });
  if (!found) return ok();
  return reject("the init of block `{a}` reads what block `{b}` writes below the loop", block->name, found->name)
      .about_block(block->id.value)
      .about_block(found->id.value)
      .about_loop(loop->id.value);
}

Status keeps_company(const State& state, const Block* block, const Path& to) {
  TW_TRY(Path from, state.path_to(block->id));
  for (const Block* producer : producers(state.program().body, block)) {
    TW_TRY(Path other, state.path_to(producer->id));
    for (int i = 0; i < from.size() && i < other.size() && from[i] == other[i]; ++i) {
      const For* shared = as<For>(from[i]);
      if (!shared || shared->extent == 1 || to.index_of(shared) >= 0) continue;
      return reject(
                 "block `{b}` is computed for block `{a}` inside loops that they share; the new place is outside these "
                 "loops",
                 block->name, producer->name)
          .about_block(producer->id.value)
          .about_loop(shared->id.value);
    }
  }
  return ok();
}

namespace {

// The indices of one write to the buffer, over the loops around.
List<const Expr*> written_indices(Arena& arena, const Block* block, const Buffer* buffer) {
  Substitution bindings;
  for (std::size_t i = 0; i < block->iters.size(); ++i) bindings.set(block->iters[i].var, block->bindings[i]);
  List<const Expr*> out;
  for (const Access& access : accesses_of(block)) {
    if (access.kind != AccessKind::Write || access.buffer != buffer || !out.empty()) continue;
    for (const Expr* index : access.indices) out.push_back(substitute(arena, index, bindings));
  }
  return out;
}

}  // namespace

Status loops_do_not_repeat(Arena& arena, const Path& path, int from, int to, bool reductions_may) {
  const Block* block = static_cast<const Block*>(path.back());
  VarRanges ranges = ranges_around(path);
  add_ranges(ranges, loops_inside(block));
  List<const Var*> fixed, moving;
  for (int i = 0; i <= to; ++i) {
    const For* loop = as<For>(path[i]);
    if (!loop || loop->extent == 1) continue;
    bool reduces = feeds(loop, block, IterKind::R), only_reduces = reduces && !feeds(loop, block, IterKind::S);
    if (i >= from && !reductions_may && reduces) {
      return reject("block `{a}` is not finished below loop `{b}`, which feeds its reduction", block->name,
                    loop->var->name)
          .about_block(block->id.value)
          .about_loop(loop->id.value);
    }
    if (i < from)
      fixed.push_back(loop->var);
    else if (!only_reduces)
      moving.push_back(loop->var);
  }
  for (const Buffer* buffer : buffers_written(block)) {
    List<const Expr*> indices = written_indices(arena, block, buffer);
    for (const Var* var : moving) {
      if (are_determined({var}, indices, block->predicate, ranges, fixed)) continue;
      return reject("iterations of loop `{b}` write the same elements of block `{a}` again", block->name, var->name)
          .about_block(block->id.value);
    }
  }
  return ok();
}

Status is_finished_in(const Path& path, int loops, const Block* block) {
  for (int i = 0; i < loops; ++i) {
    const For* loop = as<For>(path[i]);
    if (!loop || loop->extent == 1 || !feeds(loop, block, IterKind::R)) continue;
    return reject("block `{a}` is not finished in an iteration of loop `{b}`, which feeds its reduction", block->name,
                  loop->var->name)
        .about_block(block->id.value)
        .about_loop(loop->id.value);
  }
  return ok();
}

Status concurrent_loops_stay_legal(State& state, BlockId id, const Program& before) {
  TW_TRY(Path path, state.path_to(id));
  VarRanges around;
  for (int i = 0; i < path.size(); ++i) {
    const For* loop = as<For>(path[i]);
    if (!loop) continue;
    if (loop->loop_kind != LoopKind::Serial && loop->loop_kind != LoopKind::Unroll) {
      auto check = loop->loop_kind == LoopKind::Vectorize ? iterations_may_interleave : iterations_may_overlap;
      Status status = combines_work_items(loop) ? work_items_may_combine(loop)
                                                : check(state.arena(), state.program(), loop, around);
      if (!status) {
        state.set_program(before);
        return status;
      }
    }
    around.set_extent(loop->var, loop->extent);
  }
  return ok();
}

namespace {

// Loops around a block, its new place and one of its producers: in an iteration only a part of its inputs may be there.
List<const For*> loops_with_producers(const State& state, const List<const Block*>& sources, const Path& from,
                                      const Path& to) {
  List<const For*> shared;
  for (const Block* producer : sources) {
    Path other = *state.path_to(producer->id);
    for (int i = 0; i < from.size() && i < to.size() && i < other.size() && from[i] == to[i] && from[i] == other[i];
         ++i) {
      const For* loop = as<For>(from[i]);
      if (loop && loop->extent > 1) shared.push_back(loop);
    }
  }
  return shared;
}

// The values of an iter for which a block runs in all iterations of loops: ranges that go beyond its domain are cut.
Interval values_in(const Range& range, const IterVar& iter, const VarRanges& loops) {
  std::optional<Interval> begin = range.extent < iter.extent ? interval_of(range.min, loops) : std::nullopt;
  if (!begin) return {0, iter.extent - 1};
  return {std::max<i64>(begin->min, 0), std::min(begin->max + range.extent, iter.extent) - 1};
}

bool contains(const Interval& whole, const Interval& part) { return whole.min <= part.min && part.max <= whole.max; }

}  // namespace

Status computes_no_more(const State& state, const Block* block, const Path& from, const Path& to,
                        const List<Range>& ranges) {
  List<const Block*> sources = producers(state.program().body, block);
  if (sources.empty()) return ok();
  List<const For*> shared = loops_with_producers(state, sources, from, to);
  VarRanges before = ranges_around(from), after = ranges_around(to);
  if (const For* loop = as<For>(to.back())) after.set_extent(loop->var, loop->extent);
  List<Bound> bounds = bounds_of(block->predicate, before);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const IterVar& iter = block->iters[i];
    if (iter.kind == IterKind::R) continue;
    bool is_whole = ranges[i].extent >= iter.extent;
    bool is_cut = is_whole && std::any_of(shared.begin(), shared.end(),
                                          [&](const For* loop) { return uses(block->bindings[i], loop->var); });
    Sum values = sum_of(block->bindings[i]);
    std::optional<Interval> reach = bounded_interval(values, before, bounds);
    bool is_known = reach && is_dense(values, before, bounds);
    if (!is_cut && is_known && contains(*reach, values_in(ranges[i], iter, after))) continue;
    return reject("iter `{b}` of block `{a}` would run over more values than now, for which its inputs may be missing",
                  block->name, iter.var->name)
        .about_block(block->id.value);
  }
  return ok();
}

List<Range> ranges_to_write(Arena& arena, const Block* block, const Buffer* buffer, const Region& region) {
  List<Range> ranges;
  VarRanges inside;
  add_ranges(inside, loops_inside(block));
  for (const Access& access : accesses_of(block)) {
    if (access.kind != AccessKind::Write || access.buffer != buffer) continue;
    List<Range> here = iter_ranges(arena, block, access.indices, region, inside);
    if (ranges.empty())
      ranges = here;
    else
      widen(arena, block, ranges, here);
  }
  return ranges;
}

void widen(Arena& arena, const Block* block, List<Range>& ranges, const List<Range>& other) {
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    bool same = ranges[i].extent == other[i].extent && same_expr(ranges[i].min, other[i].min);
    if (!same) ranges[i] = {Build{arena}.integer(0), block->iters[i].extent};
  }
}

void move_before(State& state, const Block* block, const Stmt* anchor, const Stmt* nest) {
  state.replace(block, nullptr);
  insert_before(state, anchor, nest);
}
void move_after(State& state, const Block* block, const Stmt* anchor, const Stmt* nest) {
  state.replace(block, nullptr);
  insert_after(state, anchor, nest);
}

}  // namespace tw
