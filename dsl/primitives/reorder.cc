// Permutes loops of one chain.
//   for i { for j { for k { B } } }   reorder([k, i])   ->   for k { for j { for i { B } } }
// The loops take each other's places in the chain, in the order given; loops of the chain that are not listed stay
// where they are. Each loop of the chain is the only statement of the one around it. If several blocks are below, each
// iteration must compute what it reads. A loop that feeds S and R iters (after fuse) stays in order with other loops of
// the reduction, and with those that feed the same S iter: the point where it is initialised comes first.
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/dependence.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/nest.h"
#include "dsl/schedule/steps.h"

using namespace tw;

PRIMITIVE(reorder, Unit(Loops loops))

static Status are_distinct(const List<const For*>& loops) {
  for (std::size_t i = 0; i < loops.size(); ++i) {
    if (std::find(loops.begin(), loops.begin() + i, loops[i]) != loops.begin() + i) {
      return reject("loop `{a}` is listed twice", loops[i]->var->name).about_loop(loops[i]->id.value);
    }
  }
  return ok();
}

// From the outermost of the listed loops to the innermost, with the loops between.
static Result<List<const For*>> chain_of(const List<const For*>& loops) {
  auto is_listed = [&](const For* loop) { return std::find(loops.begin(), loops.end(), loop) != loops.end(); };
  List<const For*> longest;
  for (const For* start : loops) {
    List<const For*> chain;
    std::size_t met = 0;
    for (const For* loop = start; loop && met < loops.size(); loop = as<For>(loop->body)) {
      chain.push_back(loop);
      met += is_listed(loop);
    }
    if (met == loops.size()) return chain;
    if (chain.size() > longest.size()) longest = chain;
  }
  for (const For* loop : loops) {
    if (std::find(longest.begin(), longest.end(), loop) == longest.end()) {
      return reject(
                 "loops `{a}` and `{b}` are not on one chain: between them is a loop with several statements, or none "
                 "contains the other",
                 longest[0]->var->name, loop->var->name)
          .about_loop(longest[0]->id.value)
          .about_loop(loop->id.value);
    }
  }
  TW_CHECK(false, "a chain that holds all loops was not noticed");
}

static bool is_mixed(const For* loop, const Block* block) {
  return loop->extent > 1 && feeds(loop, block, IterKind::R) && feeds(loop, block, IterKind::S);
}

// Do both loops feed one S iter? Then different iterations of one give the same point, with other iterations of the
// other.
static bool share_point(const For* a, const For* b, const Block* block) {
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    if (block->iters[i].kind == IterKind::S && uses(block->bindings[i], a->var) && uses(block->bindings[i], b->var))
      return true;
  }
  return false;
}

// The loops in whose order the values of a point's R iters come.
static List<const For*> reduction_order(const List<const For*>& loops, const Block* block,
                                        const List<const For*>& mixed) {
  List<const For*> out;
  for (const For* loop : loops) {
    auto is_tied = [&](const For* other) { return share_point(loop, other, block); };
    if (loop->extent > 1 && (feeds(loop, block, IterKind::R) || std::any_of(mixed.begin(), mixed.end(), is_tied)))
      out.push_back(loop);
  }
  return out;
}

static Status initialises_first(const State& state, const List<const For*>& before, const List<const For*>& after) {
  for (const Block* block : blocks_in(before.back()->body)) {
    if (!block->init) continue;
    TW_TRY(Path path, state.path_to(block->id));
    List<const For*> mixed;
    for (int i = path.index_of(before[0]); i < path.size(); ++i) {
      const For* loop = as<For>(path[i]);
      if (loop && is_mixed(loop, block)) mixed.push_back(loop);
    }
    if (mixed.empty() || reduction_order(before, block, mixed) == reduction_order(after, block, mixed)) continue;
    return reject(
               "loop `{a}` feeds spatial and reduction iters of block `{b}` and must keep its order with the other "
               "loops of the reduction",
               mixed[0]->var->name, block->name)
        .about_loop(mixed[0]->id.value)
        .about_block(block->id.value);
  }
  return ok();
}

static Result<Unit> apply(State& state, Loops ids) {
  List<const For*> loops;
  for (LoopId id : ids) {
    TW_TRY(const For* loop, state.loop(id));
    loops.push_back(loop);
  }
  if (loops.empty()) return reject("expected at least one loop");
  TW_TRY_STATUS(are_distinct(loops));
  TW_TRY(List<const For*> chain, chain_of(loops));
  TW_TRY(Path path, state.path_to(chain[0]->id));
  TW_TRY_STATUS(iterations_may_be_permuted(state.arena(), chain.back()->body, chain, ranges_around(path)));

  List<const For*> order = chain;
  auto next = loops.begin();
  for (std::size_t i = 0; i < chain.size(); ++i) {
    if (std::find(loops.begin(), loops.end(), chain[i]) != loops.end()) order[i] = *next++;
  }
  TW_TRY_STATUS(initialises_first(state, chain, order));
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = i + 1; j < order.size(); ++j) TW_TRY_STATUS(may_contain(order[i], order[j]));
  }
  const Stmt* body = chain.back()->body;
  for (std::size_t i = order.size(); i-- > 0;) body = state.build().with_body(order[i], body);
  Program before = state.program();
  state.replace(chain[0], body);
  // A loop of a reduction that is now around a concurrent loop carries sums from one run of that to the next.
  bool has_workers = std::any_of(chain.begin(), chain.end(), [](const For* loop) {
    return loop->loop_kind != LoopKind::Serial && loop->loop_kind != LoopKind::Unroll;
  });
  if (has_workers) TW_TRY_STATUS(concurrent_loops_stay_legal(state, blocks_in(chain.back()->body)[0]->id, before));
  return Unit{};
}

Status tw::steps::reorder(State& state, Loops loops) { return apply(state, loops); }

REGISTER(reorder, "Permutes loops of one chain; loops that are not listed stay where they are.")
