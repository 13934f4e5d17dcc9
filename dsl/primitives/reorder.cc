// Permutes loops of one chain.
//   for i { for j { for k { B } } }   reorder([k, i])   ->   for k { for j { for i { B } } }
// The loops take each other's places in the chain, in the order given; loops of the chain that are not listed stay
// where they are. Each loop of the chain is the only statement of the one around it. If several blocks are below, each
// iteration must compute what it reads. A loop that feeds S and R iters (after fuse) stays in order with other loops of
// the reduction: the point where it is initialised comes first.
#include <algorithm>
#include <iterator>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/dependence.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/nest.h"
#include "dsl/schedule/primitive.h"

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

static Status initialises_first(const List<const For*>& before, const List<const For*>& after) {
  for (const Block* block : blocks_in(before.back()->body)) {
    if (!block->init) continue;
    List<const For*> old_order, new_order;
    auto reduces = [&](const For* loop) { return loop->extent > 1 && feeds(loop, block, IterKind::R); };
    std::copy_if(before.begin(), before.end(), std::back_inserter(old_order), reduces);
    std::copy_if(after.begin(), after.end(), std::back_inserter(new_order), reduces);
    auto is_mixed = [&](const For* loop) { return feeds(loop, block, IterKind::S); };
    auto mixed = std::find_if(old_order.begin(), old_order.end(), is_mixed);
    if (mixed != old_order.end() && old_order != new_order) {
      return reject(
                 "loop `{a}` feeds spatial and reduction iters of block `{b}` and must keep its order with the other "
                 "loops of the reduction",
                 (*mixed)->var->name, block->name)
          .about_loop((*mixed)->id.value)
          .about_block(block->id.value);
    }
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
  TW_TRY_STATUS(initialises_first(chain, order));
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

REGISTER(reorder, "Permutes loops of one chain; loops that are not listed stay where they are.")
