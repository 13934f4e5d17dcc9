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
    for (std::size_t d = 0; d < load->indices.size(); ++d)
      (d + 1 == load->indices.size() ? along : across) |= reads(load->indices[d], iter);
  });
  return along && !across;
}

// Its loops in the order of its iters, spatial ones first, as workloads are written; else why not.
Result<std::size_t> spatial_loops(Schedule& schedule, BlockId id) {
  TW_TRY(const Block* block, schedule.state().block(id));
  TW_TRY(Array<const For*> loops, schedule.state().loops_around(id));
  std::size_t spatial = 0;
  while (spatial < block->iters.size() && block->iters[spatial].kind == IterKind::S) ++spatial;
  bool is_plain = loops.size() == block->iters.size() && spatial > 0 && spatial < loops.size();
  for (std::size_t i = 0; is_plain && i < loops.size(); ++i) is_plain = block->bindings[i] == loops[i]->var;
  if (!is_plain || !moves_along_rows(block, block->iters[spatial - 1].var))
    return reject("the rows of this block are not inside");
  return spatial;
}

Status move_rows_inside(Schedule& schedule, BlockId id, std::size_t spatial) {
  TW_TRY(Loops handles, schedule.get_loops(id));
  TW_TRY_STATUS(schedule.decompose_reduction(id, handles[0]));
  TW_TRY(Loops update, schedule.get_loops(id));
  std::vector<LoopId> order(update.begin() + static_cast<i64>(spatial), update.end());
  order.push_back(update[spatial - 1]);
  TW_TRY_STATUS(schedule.reorder(Loops(order)));
  return ok();
}

// 4 x 8 sums of such a block, of several rows, stay in registers.
Status keep_tiles(Schedule& schedule, BlockId id, std::size_t spatial) {
  TW_TRY(Loops loops, schedule.get_loops(id));
  Arena& arena = schedule.state().arena();
  TW_TRY(Loops rows, schedule.split(loops[spatial - 2], {arena.list<i64>({Factors::kHole, 4})}));
  TW_TRY(Loops columns, schedule.split(loops.back(), {arena.list<i64>({Factors::kHole, 8})}));
  std::vector<LoopId> order{rows[0], columns[0]};
  order.insert(order.end(), loops.begin() + static_cast<i64>(spatial) - 1, loops.end() - 1);
  order.insert(order.end(), {rows[1], columns[1]});
  TW_TRY_STATUS(schedule.reorder(Loops(order)));
  TW_TRY_STATUS(schedule.promote(id, 0, loops[spatial - 1]));
  TW_TRY_STATUS(schedule.unroll(rows[1]));
  TW_TRY_STATUS(schedule.vectorize(columns[1]));
  return ok();
}

Status run_in_parallel(Schedule& schedule, BlockId id) {
  TW_TRY(Loops loops, schedule.get_loops(id));
  TW_TRY_STATUS(schedule.parallel(loops[0]));
  return ok();
}

// What can be done of this, one after the other.
Schedule made_fast(Schedule schedule, Str name) {
  Result<BlockId> id = schedule.get_block(name);
  if (!id) return schedule;
  auto attempt = [&](auto step, auto... more) {
    Schedule changed = schedule.fork();
    bool good = bool(step(changed, *id, more...));
    if (good) schedule = std::move(changed);
    return good;
  };
  Result<std::size_t> spatial = spatial_loops(schedule, *id);
  if (spatial && attempt(move_rows_inside, *spatial) && *spatial > 1) attempt(keep_tiles, *spatial);
  attempt(run_in_parallel);
  return schedule;
}

}  // namespace

Schedule reference_schedule(const Program& widened, double reordered_points) {
  Schedule schedule(widened);
  std::vector<Str> reductions;
  for (const Block* block : schedule.state().blocks()) {
    if (block->init && points_of(block) >= reordered_points) reductions.push_back(block->name);
  }
  for (Str name : reductions) schedule = made_fast(std::move(schedule), name);
  return schedule;
}

}  // namespace tw
