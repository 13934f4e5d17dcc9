#include "sampler/search/reference.h"

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/points.h"

namespace tw {
namespace {

bool reads(const Expr* index, const Var* var) {
  bool found = false;
  for_each<Var>(index, [&](const Var* met) { found |= met == var; });
  return found;
}

// Some load walks along a row as the iter moves, and none jumps from row to row.
bool moves_along_rows(const Block* block, const Var* iter) {
  bool along = false, across = false;
  for_each<Load>(block->body, [&](const Load* load) {
    for (std::size_t d = 0; d < load->indices.size(); ++d) (d + 1 == load->indices.size() ? along : across) |= reads(load->indices[d], iter);
  });
  return along && !across;
}

// Only where loops and iters are the same things in the same order, spatial ones first, as workloads are written.
Status move_rows_inside(Schedule& schedule, Str name) {
  TW_TRY(BlockId id, schedule.get_block(name));
  TW_TRY(const Block* block, schedule.state().block(id));
  TW_TRY(Array<const For*> loops, schedule.state().loops_around(id));
  std::size_t spatial = 0;
  while (spatial < block->iters.size() && block->iters[spatial].kind == IterKind::S) ++spatial;
  bool is_plain = loops.size() == block->iters.size() && spatial > 0 && spatial < loops.size();
  for (std::size_t i = 0; is_plain && i < loops.size(); ++i) is_plain = block->bindings[i] == loops[i]->var;
  if (!is_plain || !moves_along_rows(block, block->iters[spatial - 1].var)) return reject("the rows of this block are not inside");
  TW_TRY(Loops handles, schedule.get_loops(id));
  TW_TRY_STATUS(schedule.decompose_reduction(id, handles[0]));
  TW_TRY(Loops update, schedule.get_loops(id));
  std::vector<LoopId> order(update.begin() + static_cast<i64>(spatial), update.end());
  order.push_back(update[spatial - 1]);
  TW_TRY_STATUS(schedule.reorder(Loops(order)));
  return ok();
}

}  // namespace

Schedule reference_schedule(const Program& widened, double reordered_points) {
  Schedule schedule(widened);
  std::vector<Str> reductions;
  for (const Block* block : schedule.state().blocks()) {
    if (block->init && points_of(block) >= reordered_points) reductions.push_back(block->name);
  }
  for (Str name : reductions) {
    Schedule attempt = schedule.fork();
    if (move_rows_inside(attempt, name)) schedule = std::move(attempt);
  }
  return schedule;
}

}  // namespace tw
