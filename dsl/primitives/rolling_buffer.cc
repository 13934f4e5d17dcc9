// A producer inside a loop of its consumer keeps what the iteration before has computed, in a
// buffer that is a ring.
//   for y { for r in 6 { B[y * 4 + r] = A[..] };  for r in 4 { C[y * 4 + r] = B[y * 4 + r] + B[y *
//   4 + r + 2] } } rolling_buffer(B, 0)   ->   B: layout "ring 0"; for y { for r in 6 { B[y * 4 +
//   r] where y == 0 or r >= 2 };  .. }
// Applies to a complete block in the innermost loop that it shares with all its consumers, all of
// which come behind it, if from iteration to iteration the box that they read moves along one axis
// and overlaps the one before. Indices stay those of the whole buffer: when the program is lowered,
// the axis gets as many elements as one iteration touches and the index becomes a remainder, or the
// candidate is rejected, where a later step has changed what passes from iteration to iteration.
// Source: RollingBuffer of TensorIR, which rewrites the indices.
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/bounds.h"
#include "dsl/analysis/simplify.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(rolling_buffer, Unit(BlockId block, i64 write_index))

namespace {

struct Plan {
  const Block* block;
  const Buffer* buffer;
  const For* loop;        // from whose iterations to the next elements are kept
  std::size_t axis = 0;   // along which the box moves
  const Expr* index;      // of the write along the axis, over the loops around
  const Expr* first_new;  // elements from here on are new in an iteration that is not the first
  VarRanges ranges;       // of all loops around the block
};

// The innermost loop around the block that is also around all its consumers, which come later.
Result<const For*> shared_loop(const State& state, const Block* block, const Path& path) {
  List<const Block*> readers = consumers(state.program().body, block), order = blocks_in(state.program().body);
  if (readers.empty())
    return reject("block `{a}` has no consumer to keep elements for", block->name).about_block(block->id.value);
  for (const Block* reader : readers) {
    if (order_of(order, reader) < order_of(order, block)) {
      return reject("block `{b}` reads what block `{a}` writes only later", block->name, reader->name)
          .about_block(reader->id.value);
    }
  }
  for (int i = path.size(); i-- > 0;) {
    const For* loop = as<For>(path[i]);
    auto is_below = [&](const Block* reader) { return is_inside(loop, reader); };
    if (loop && std::all_of(readers.begin(), readers.end(), is_below)) return loop;
  }
  return reject("block `{a}` shares no loop with all its consumers", block->name).about_block(block->id.value);
}

// What the block reads must be finished when it reads it: it does not come back later.
Status inputs_are_finished(const State& state, const Block* block, const For* loop) {
  TW_TRY_STATUS(reads_what_is_before(state, block));
  for (const Block* producer : producers(state.program().body, block)) {
    if (!is_inside(loop, producer) || !feeds(loop, producer, IterKind::R)) continue;
    return reject(
               "block `{b}`, whose output block `{a}` reads, is not finished in an iteration of "
               "the loop",
               block->name, producer->name)
        .about_block(producer->id.value)
        .about_loop(loop->id.value);
  }
  return ok();
}

// How far `range` moves from one iteration of the loop to the next; 0 = it stays, nothing = not
// understood.
std::optional<i64> step_of(const Range& range, const For* loop) {
  Sum min = sum_of(range.min);
  if (!min.exact) return std::nullopt;
  i64 step = 0;
  for (const Sum::Term& term : min.terms) {
    if (term.atom == loop->var)
      step = term.coefficient;
    else if (uses(term.atom, loop->var))
      return std::nullopt;
  }
  return step;
}

// The axis along which the box of one iteration moves, and how far.
Result<std::pair<std::size_t, i64>> moving_axis(const Plan& plan, const Region& read) {
  std::optional<std::pair<std::size_t, i64>> found;
  for (std::size_t d = 0; d < read.dims.size(); ++d) {
    std::optional<i64> step = step_of(read.dims[d], plan.loop);
    bool moves = !step || *step != 0;
    if (moves && (found || !step || *step < 0)) {
      return reject(
                 "the box of `{a}` that an iteration of loop `{b}` reads does not move forward "
                 "along one axis",
                 plan.buffer->name, plan.loop->var->name)
          .about_loop(plan.loop->id.value);
    }
    if (moves) found = {d, *step};
  }
  if (!found || read.dims[found->first].extent <= found->second) {
    return reject("iterations of loop `{b}` read nothing of `{a}` that the iteration before has read",
                  plan.buffer->name, plan.loop->var->name)
        .about_loop(plan.loop->id.value);
  }
  return *found;
}

// Conjuncts of the predicate may speak of the loops further out, or of the index alone: then an
// element that the iteration before was to compute was really computed.
Status predicate_moves_along(const Plan& plan, const List<const For*>& own) {
  Sum index = sum_of(plan.index);
  for (const Expr* conjunct : conjuncts_of(plan.block->predicate)) {
    bool is_outside = std::none_of(own.begin(), own.end(), [&](const For* loop) { return uses(conjunct, loop->var); });
    List<Bound> bounds = bounds_of(conjunct, plan.ranges);
    bool is_index = bounds.size() == 1 && understands(conjunct) && factor_of(index, bounds[0].sum) &&
                    bounds[0].sum.terms.size() == index.terms.size();
    bool is_other_axis = !uses(conjunct, plan.loop->var) &&
                         std::none_of(index.terms.begin(), index.terms.end(), [&](const Sum::Term& term) {
                           bool shared = false;
                           for_each<Var>(term.atom, [&](const Var* var) { shared |= uses(conjunct, var); });
                           return shared;
                         });
    if (is_outside || is_index || is_other_axis) continue;
    return reject(
               "a condition of block `{a}` does not let it be told what the iteration before has "
               "computed",
               plan.block->name)
        .about_block(plan.block->id.value);
  }
  return ok();
}

// The loops from the shared one inwards.
List<const For*> loops_from(const Path& path, const For* shared) {
  List<const For*> out;
  for (int i = path.index_of(shared); i < path.size(); ++i) {
    if (const For* loop = as<For>(path[i])) out.push_back(loop);
  }
  return out;
}

Result<Plan> plan_for(State& state, BlockId id, i64 write_index) {
  TW_TRY(Path path, state.path_to(id));
  Plan plan{};
  plan.block = static_cast<const Block*>(path.back());
  TW_TRY(plan.buffer, local_written_by(state, plan.block, write_index));
  TW_TRY_STATUS(is_complete(state.program().body, plan.block));
  if (!single_store(plan.block))
    return reject("expected block `{a}` to be one store", plan.block->name).about_block(id.value);
  if (!plan.buffer->layout.empty()) return reject("`{a}` has a layout of its own already", plan.buffer->name);
  TW_TRY(plan.loop, shared_loop(state, plan.block, path));
  TW_TRY_STATUS(is_serial(plan.loop));
  TW_TRY_STATUS(inputs_are_finished(state, plan.block, plan.loop));
  plan.ranges = ranges_around(path);
  VarRanges around = ranges_to(path, path.index_of(plan.loop) + 1);
  Arena& arena = state.arena();
  Region read = *region_of(arena, plan.loop->body, plan.buffer, AccessKind::Read, around);
  Region written = *region_of(arena, plan.loop->body, plan.buffer, AccessKind::Write, around, plan.block);
  using Axis = std::pair<std::size_t, i64>;
  TW_TRY(Axis moving, moving_axis(plan, read));
  plan.axis = moving.first;
  if (!contains(written, read, around) || step_of(written.dims[plan.axis], plan.loop) != moving.second) {
    return reject("an iteration of loop `{b}` does not write all of `{a}` that it reads", plan.buffer->name,
                  plan.loop->var->name)
        .about_loop(plan.loop->id.value);
  }
  Substitution bindings;
  for (std::size_t i = 0; i < plan.block->iters.size(); ++i)
    bindings.set(plan.block->iters[i].var, plan.block->bindings[i]);
  const StoreTarget& target = single_store(plan.block)->targets[0];
  plan.index = simplify(arena, substitute(arena, target.indices[plan.axis], bindings), plan.ranges);
  const Range& window = written.dims[plan.axis];
  plan.first_new = state.build().add(window.min, window.extent - moving.second);
  TW_TRY_STATUS(predicate_moves_along(plan, loops_from(path, plan.loop)));
  return plan;
}

}  // namespace

static Result<Unit> apply(State& state, BlockId id, i64 write_index) {
  TW_TRY(Plan plan, plan_for(state, id, write_index));
  Build build = state.build();
  Arena& arena = state.arena();
  const Expr* is_first = build.binary(BinaryOp::Eq, plan.loop->var, build.integer(0));
  const Expr* is_new = simplify(arena, build.binary(BinaryOp::Ge, plan.index, plan.first_new), plan.ranges);
  const Expr* needed = build.binary(BinaryOp::Or, is_first, is_new);
  Program before = state.program();
  state.replace(plan.block,
                build.with_bindings(plan.block, plan.block->bindings, build.both(plan.block->predicate, needed)));
  Buffer* ring = arena.make<Buffer>(*plan.buffer);
  ring->layout = state.name(kRingLayout, std::to_string(plan.axis));
  state.replace_buffer_everywhere(plan.buffer, ring);
  return concurrent_loops_stay_legal(state, id, before);
}

REGISTER(rolling_buffer, "A producer keeps what the iteration before has computed, in a buffer that is a ring.")
