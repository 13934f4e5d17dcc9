// Cuts a reduction in two: partial results along one of its loops, which then becomes data-parallel, and a reduction of
// these.
//   for i { for k0 in 4 { for k1 in 8 { D[i] += A[i, k0 * 8 + k1] } } }     rfactor(k0, 1)
//   ->   for i { for k0 { for k1 { D_rf[i, k0] += A[i, k0 * 8 + k1] } } };   for i { for k0 { D[i] += D_rf[i, k0] } }
// Applies to a serial loop that feeds only R iters of one reduction block with a known reducer
// (dsl/analysis/reducer.h), whose reduction loops contain nothing else. factor_axis is where the new dimension goes,
// negative from the end; all buffers that the block writes have as many dimensions. Under a predicate on R iters (a
// tail) the partial result takes the identity instead; predicates on S iters stay on both. The result is the new block
// with the partial results, in the old loops.
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/reducer.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/steps.h"

using namespace tw;

PRIMITIVE(rfactor, BlockId(LoopId loop, i64 factor_axis))

namespace {

// Everything that is known when all checks have passed.
struct Plan {
  const For* loop;
  const Block* block;
  Path path;    // to the block
  int own_top;  // index in the path of the highest statement that holds only the block
  Reducer reducer;
  i64 axis;
  List<const For*> reduction_loops;
};

Result<List<const For*>> reduction_loops(const Plan& plan) {
  List<const For*> loops;
  for (int i = 0; i < plan.path.size(); ++i) {
    const For* loop = as<For>(plan.path[i]);
    if (!loop || !feeds(loop, plan.block, IterKind::R)) continue;
    TW_TRY_STATUS(check_feeds_only_reduction(loop, plan.block));
    if (i < plan.own_top) {
      return reject("reduction loop `{a}` contains more than block `{b}`", loop->var->name, plan.block->name)
          .about_loop(loop->id.value);
    }
    loops.push_back(loop);
  }
  return loops;
}

// A tail of the reduction becomes a guard inside the block, where only reduction loops are known.
Status tails_are_apart(const Plan& plan) {
  for (const Expr* conjunct : conjuncts_of(plan.block->predicate)) {
    bool spatial = false, reduces = false;
    for_each<Var>(conjunct, [&](const Var* var) {
      auto is_var = [&](const For* loop) { return loop->var == var; };
      bool here = std::any_of(plan.reduction_loops.begin(), plan.reduction_loops.end(), is_var);
      (here ? reduces : spatial) = true;
    });
    if (spatial && reduces) {
      return reject("the predicate of block `{a}` relates spatial and reduction loops", plan.block->name)
          .about_block(plan.block->id.value);
    }
  }
  return ok();
}

Result<Plan> plan_for(const State& state, LoopId id, i64 axis) {
  TW_TRY(const For* loop, state.loop(id));
  TW_TRY_STATUS(is_serial(loop));
  List<const Block*> below = blocks_in(loop);
  if (below.size() != 1) {
    return reject("expected one block below loop `{a}`, found {0}", loop->var->name, static_cast<i64>(below.size()))
        .about_loop(id.value);
  }
  const Block* block = below[0];
  TW_TRY_STATUS(is_reduction(state.program().body, block));
  TW_TRY_STATUS(check_feeds_only_reduction(loop, block));
  std::optional<Reducer> reducer = reducer_of(block);
  if (!reducer) {
    return reject("block `{a}` is no sum, product, max, min, argmax or argmin that starts from the identity",
                  block->name)
        .about_block(block->id.value);
  }
  i64 rank = static_cast<i64>(reducer->targets[0].buffer->shape.size());
  if (axis < -(rank + 1) || axis > rank) {
    return reject("factor_axis {0} is out of range: the new dimension can be {1} to {2}", axis, -(rank + 1), rank);
  }
  for (const StoreTarget& target : reducer->targets) {
    i64 other = static_cast<i64>(target.buffer->shape.size());
    if (other == rank) continue;
    return reject("block `{a}` writes buffers of {0} and of {1} dimensions, in which factor_axis is not the same place",
                  block->name, rank, other)
        .about_block(block->id.value);
  }
  TW_TRY(Path path, state.path_to(block->id));
  Plan plan{loop, block, path, path.index_of(top_of_own_nest(path)), *reducer, axis < 0 ? axis + rank + 1 : axis, {}};
  TW_TRY(plan.reduction_loops, reduction_loops(plan));
  TW_TRY_STATUS(tails_are_apart(plan));
  return plan;
}

// The conjuncts of the predicate that concern reduction loops, and the others.
void sort_conjuncts(const Plan& plan, List<const Expr*>& reduction, List<const Expr*>& rest) {
  for (const Expr* conjunct : conjuncts_of(plan.block->predicate)) {
    bool reduces = std::any_of(plan.reduction_loops.begin(), plan.reduction_loops.end(),
                               [&](const For* l) { return uses(conjunct, l->var); });
    (reduces ? reduction : rest).push_back(conjunct);
  }
}

template <class T>
Array<T> with_inserted(Arena& arena, Array<T> list, i64 at, const T& added) {
  List<T> out(list.begin(), list.end());
  out.insert(out.begin() + at, added);
  return arena.copy(out);
}

// The block of partial results. Its iters: the S iters, the factor (S), one R iter per other reduction loop.
const Block* partial_block(State& state, const Plan& plan, const List<const Buffer*>& buffers, BlockId id) {
  Build build = state.build();
  Arena& arena = state.arena();
  List<IterVar> iters, reduced;
  List<const Expr*> bindings, reduced_bindings;
  Substitution inside, loops;
  for (std::size_t i = 0; i < plan.block->iters.size(); ++i) {
    IterVar iter = plan.block->iters[i];
    if (iter.kind == IterKind::R) continue;
    const Var* var = state.fresh_var(iter.var->name);
    inside.set(iter.var, var);
    iters.push_back({var, iter.extent, iter.kind});
    bindings.push_back(plan.block->bindings[i]);
  }
  const Var* factor = nullptr;
  for (const For* loop : plan.reduction_loops) {
    const Var* var = state.fresh_var(loop->var->name);
    loops.set(loop->var, var);
    if (loop == plan.loop) {
      factor = var;
      iters.push_back({var, loop->extent, IterKind::S});
      bindings.push_back(loop->var);
    } else {
      reduced.push_back({var, loop->extent, IterKind::R});
      reduced_bindings.push_back(loop->var);
    }
  }
  iters.insert(iters.end(), reduced.begin(), reduced.end());
  bindings.insert(bindings.end(), reduced_bindings.begin(), reduced_bindings.end());
  for (std::size_t i = 0; i < plan.block->iters.size(); ++i) {
    if (plan.block->iters[i].kind == IterKind::R)
      inside.set(plan.block->iters[i].var, substitute(arena, plan.block->bindings[i], loops));
  }
  List<const Expr*> guards, rest;
  sort_conjuncts(plan, guards, rest);
  const Expr* guard = conjunction(build, guards);
  if (guard) guard = substitute(arena, guard, loops);

  List<StoreTarget> targets;
  List<const Expr*> loads, terms;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    List<const Expr*> indices;
    for (const Expr* index : plan.reducer.targets[i].indices) indices.push_back(substitute(arena, index, inside));
    Array<const Expr*> at =
        with_inserted(arena, Array<const Expr*>(arena.copy(indices)), plan.axis, static_cast<const Expr*>(factor));
    targets.push_back({buffers[i], at});
    loads.push_back(build.load(buffers[i], at));
    const Expr* term = substitute(arena, plan.reducer.terms[i], inside);
    terms.push_back(guard ? build.select(guard, term, plan.reducer.identities[i]) : term);
  }
  Block* block = arena.make<Block>(*plan.block);
  block->id = id;
  block->name = state.fresh_block_name(state.name(plan.block->name, "_rf"));
  block->iters = arena.copy(iters);
  block->bindings = arena.copy(bindings);
  block->predicate = conjunction(build, rest);
  bool reduces = !reduced.empty();  // else each partial result is one term
  block->init = reduces ? build.store(arena.copy(targets), arena.copy(plan.reducer.identities)) : nullptr;
  block->body =
      build.store(arena.copy(targets), arena.copy(reduces ? combine(arena, plan.reducer, loads, terms) : terms));
  return block;
}

// The nest that reduces the partial results.
const Stmt* final_nest(State& state, const Plan& plan, const List<const Buffer*>& buffers) {
  Build build = state.build();
  Arena& arena = state.arena();
  MirroredNest mirror = mirror_loops(state, plan.block, plan.path, plan.own_top);
  const Var *iter = state.fresh_var(plan.loop->var->name), *var = state.fresh_var(plan.loop->var->name);
  List<StoreTarget> targets;
  List<const Expr*> loads, terms;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    List<const Expr*> indices;
    for (const Expr* index : plan.reducer.targets[i].indices) indices.push_back(substitute(arena, index, mirror.iters));
    Array<const Expr*> at = arena.copy(indices);
    const Buffer* out = plan.reducer.targets[i].buffer;
    targets.push_back({out, at});
    loads.push_back(build.load(out, at));
    terms.push_back(build.load(buffers[i], with_inserted(arena, at, plan.axis, static_cast<const Expr*>(iter))));
  }
  Block* block = arena.make<Block>(*mirror.block);
  block->iters = with_inserted(arena, block->iters, static_cast<i64>(block->iters.size()),
                               IterVar{iter, plan.loop->extent, IterKind::R});
  block->bindings =
      with_inserted(arena, block->bindings, static_cast<i64>(block->bindings.size()), static_cast<const Expr*>(var));
  block->init = build.store(arena.copy(targets), arena.copy(plan.reducer.identities));
  block->body = build.store(arena.copy(targets), arena.copy(combine(arena, plan.reducer, loads, terms)));
  return mirror.around(build, build.loop(state.fresh_loop(), var, plan.loop->extent, block));
}

}  // namespace

static Result<BlockId> apply(State& state, LoopId loop, i64 factor_axis) {
  TW_TRY(Plan plan, plan_for(state, loop, factor_axis));
  Program before = state.program();
  List<const Buffer*> buffers;
  for (const StoreTarget& target : plan.reducer.targets) {
    const Buffer* out = target.buffer;
    Array<i64> shape = with_inserted(state.arena(), out->shape, plan.axis, plan.loop->extent);
    buffers.push_back(state.fresh_buffer(state.name(out->name, "_rf"), out->dtype, shape, Scope::Global));
    state.add_local(buffers.back());
  }
  BlockId id = state.fresh_block();
  const Stmt* last = final_nest(state, plan, buffers);
  insert_after(state, plan.path[plan.own_top], last);
  state.replace(plan.block, partial_block(state, plan, buffers, id));
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, id, before));
  return id;
}

Result<BlockId> tw::steps::rfactor(State& state, LoopId loop, i64 factor_axis) {
  return apply(state, loop, factor_axis);
}

REGISTER(rfactor, "Cuts a reduction in two: partial results along one of its loops, and a reduction of these.")
