// Moves a consumer below a loop of its producers, where it uses up what one iteration of the loop has computed.
//   for i0 in 3 { for i1 in 4 { B[i0 * 4 + i1] } };  for j { C[j] reads B[j] }     reverse_compute_at(C, i0)
//   ->   for i0 in 3 { for i1 in 4 { B };  for j in 4 { C[i0 * 4 + j] where i0 * 4 + j < 10 } }
// Applies to a complete or reduction block if each iteration of the loop finishes a box of what it reads, no two
// iterations the same one, and the block reads that box at its iters. What else it reads must be there before the loop.
// Tails of the box are kept out by a predicate. `position` is the "first" place that it can have in the loop, directly
// after the last producer there, or the "last" one, at the loop's end: its own consumers are all after the loop. At a
// root location nothing happens; inline is reverse_compute_inline. Source: ReverseComputeAt of TVM, whose index is -2
// or -1. With `unfinished` the loop may feed a producer's reduction: the block runs with each partial result, the last
// time with the whole one. Then it must do nothing that a partial result could make illegal: no reduction, no lookup,
// no integer division.
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/steps.h"

using namespace tw;

// clang-format off: one line, which cmake/generated.cmake reads
PRIMITIVE(reverse_compute_at, Unit(BlockId block, Location at, bool keep_units = false, bool unfinished = false, Str position = "first"))
// clang-format on

// Everything the block reads comes from below the loop or from before it; everybody who reads the block comes after it.
static Status fits_in_order(const State& state, const Block* block, const For* loop) {
  const Stmt* root = state.program().body;
  List<const Block*> order = blocks_in(root);
  if (order_of(order, block) < last_order(order, loop)) {
    return reject("expected block `{a}` after loop `{b}`", block->name, loop->var->name)
        .about_block(block->id.value)
        .about_loop(loop->id.value);
  }
  for (const Block* producer : producers(root, block)) {
    if (!is_inside(loop, producer) && order_of(order, producer) > first_order(order, loop)) {
      return reject("block `{a}` also reads block `{b}`, which runs after the loop", block->name, producer->name)
          .about_block(producer->id.value)
          .about_loop(loop->id.value);
    }
  }
  for (const Block* reader : consumers(root, block)) {
    if (order_of(order, reader) < order_of(order, block)) {
      return reject("block `{b}` reads what block `{a}` writes, but runs before it", block->name, reader->name)
          .about_block(reader->id.value);
    }
  }
  return ok();
}

// The first narrowed iter with values for which it reads nothing in `total`; null if there is none.
static const IterVar* iter_out_of_reach(Arena& arena, const Block* block, const Access& access, const Region& total,
                                        const List<bool>& narrowed) {
  for (std::size_t i = 0; i < narrowed.size(); ++i) {
    if (!narrowed[i]) continue;
    for (std::size_t d = 0; d < total.dims.size(); ++d) {
      std::optional<Range> reached = solve(arena, access.indices[d], block->iters[i].var, total.dims[d]);
      std::optional<i64> low = reached ? constant_of(reached->min) : std::nullopt;
      if (reached && (!low || *low > 0 || *low + reached->extent < block->iters[i].extent)) return &block->iters[i];
    }
  }
  return nullptr;
}

// An iter that is bound to what is computed piece by piece must not have values beyond all pieces: points where a guard
// reads nothing, or reads what a producer in another loop computes, would never run.
static Status pieces_reach_all(State& state, const Block* block, const For* loop, const Access& access,
                               const List<bool>& narrowed) {
  const IterVar* beyond = nullptr;
  for (const Block* producer : writers_of(loop, access.buffer)) {
    Region total = *region_of(state.arena(), state.program().body, access.buffer, AccessKind::Write, {}, producer);
    beyond = iter_out_of_reach(state.arena(), block, access, total, narrowed);
    if (!beyond) return ok();
  }
  return reject("iter `{b}` of block `{a}` has values for which it reads nothing that the loop computes", block->name,
                beyond->var->name)
      .about_block(block->id.value);
}

// Of an index with several variables, such as i * 2 + r % 2, an iter's values may touch what an iteration computes in a
// part only.
static bool has_several_variables(const Expr* index) {
  const Var* first = nullptr;
  bool several = false;
  for_each<Var>(index, [&](const Var* var) {
    several |= first && first != var;
    first = var;
  });
  return several;
}

// The iters that consume exactly `region` of a buffer through these indices.
static Status narrow(State& state, const Block* block, const For* loop, const Access& access, const Region& region,
                     List<Range>& ranges, List<bool>& narrowed) {
  List<Range> here = iter_ranges(state.arena(), block, access.indices, region);
  std::size_t tiled = 0, solved = 0, mixed = 0;
  for (std::size_t d = 0; d < region.dims.size(); ++d) {
    bool is_tiled = !is_whole_dimension(region.dims[d], region.buffer->shape[d]);
    tiled += is_tiled;
    mixed += is_tiled && has_several_variables(access.indices[d]);
  }
  for (std::size_t i = 0; i < here.size(); ++i) {
    bool is_part = here[i].extent < block->iters[i].extent || !is_constant(here[i].min, 0);
    solved += is_part;
    if (narrowed[i] && !(is_part && same_expr(here[i].min, ranges[i].min) && here[i].extent == ranges[i].extent)) {
      return reject("block `{a}` reads `{b}` at several places along iter {0}", block->name, access.buffer->name,
                    static_cast<i64>(i))
          .about_block(block->id.value);
    }
    if (!is_part) continue;
    ranges[i] = here[i];
    narrowed[i] = true;
  }
  if (solved == tiled && mixed == 0) return pieces_reach_all(state, block, loop, access, narrowed);
  return reject(
             "block `{a}` reads `{b}` at indices that are not its iters along {0} of {1} dimensions of which an "
             "iteration computes a part",
             block->name, access.buffer->name, static_cast<i64>(std::max(tiled - solved, mixed)),
             static_cast<i64>(tiled))
      .about_block(block->id.value);
}

// May the block run with values that are not final? What it writes then is written again.
static Status can_run_unfinished(const Block* block) {
  bool reduces =
      std::any_of(block->iters.begin(), block->iters.end(), [](const IterVar& i) { return i.kind == IterKind::R; });
  bool divides = false, looks_up = false;
  for_each<Binary>(block->body, [&](const Binary* e) {
    bool is_division = e->op == BinaryOp::FloorDiv || e->op == BinaryOp::FloorMod;
    for_each<Load>(e, [&](const Load*) { divides |= is_division; });
  });
  for (const Access& access : accesses_of(block)) {
    for (const Expr* index : access.indices) for_each<Load>(index, [&](const Load*) { looks_up = true; });
  }
  if (!reduces && !divides && !looks_up) return ok();
  return reject("block `{a}` cannot run with results that are not finished: it {b}", block->name,
                Str(reduces   ? "is a reduction"
                    : divides ? "divides integers"
                              : "looks up in memory"))
      .about_block(block->id.value);
}

// Partial results pass from iteration to iteration of the reduction's loops. So no other loop may be between these and
// the place: its iterations might run at once one day, each with a buffer of its own.
static Status partial_results_stay(const Path& path, const For* loop, const Block* producer) {
  bool reduces = false;
  for (int i = 0; i <= path.index_of(loop); ++i) {
    const For* around = as<For>(path[i]);
    if (!around || around->extent == 1) continue;
    bool is_reduction = feeds(around, producer, IterKind::R) && !feeds(around, producer, IterKind::S);
    if (reduces && !is_reduction) {
      return reject("loop `{b}` would keep the partial results of block `{a}` inside of its iterations", producer->name,
                    around->var->name)
          .about_block(producer->id.value)
          .about_loop(around->id.value);
    }
    reduces |= is_reduction;
  }
  return ok();
}

static Result<List<Range>> ranges_computed(State& state, const Block* block, const For* loop, const VarRanges& around,
                                           bool unfinished) {
  List<Range> ranges;
  for (const IterVar& iter : block->iters) ranges.push_back({state.build().integer(0), iter.extent});
  List<bool> narrowed(ranges.size());
  for (const Access& access : accesses_of(block)) {
    if (access.kind != AccessKind::Read) continue;
    std::optional<Region> region = region_of(state.arena(), loop->body, access.buffer, AccessKind::Write, around);
    if (!region) continue;
    if (!region->exact) {
      return reject("cannot prove that an iteration of loop `{b}` computes a whole box of `{a}`", access.buffer->name,
                    loop->var->name)
          .about_loop(loop->id.value);
    }
    for (const Block* producer : writers_of(loop, access.buffer)) {
      TW_TRY(Path path, state.path_to(producer->id));
      TW_TRY_STATUS(loops_do_not_repeat(state.arena(), path, 0, path.index_of(loop), unfinished));
      if (unfinished) TW_TRY_STATUS(partial_results_stay(path, loop, producer));
    }
    TW_TRY_STATUS(narrow(state, block, loop, access, *region, ranges, narrowed));
  }
  return ranges;
}

static Result<Unit> apply(State& state, BlockId id, Location at, bool keep_units, bool unfinished, Str position) {
  TW_TRY(bool is_first, is_first_position(state, position));
  TW_TRY(Path from, state.path_to(id));
  if (at.place == Location::Place::Root) return Unit{};
  if (at.place == Location::Place::Inline) return inline_into_producer(state, id);
  const Block* block = static_cast<const Block*>(from.back());
  TW_TRY(Path to, state.path_to(at.loop));
  const For* loop = static_cast<const For*>(to.back());
  TW_TRY_STATUS(is_outside(from, loop, block));
  TW_TRY_STATUS(is_complete_or_reduction(state.program().body, block));
  if (unfinished) TW_TRY_STATUS(can_run_unfinished(block));
  List<const Stmt*> children = children_of(loop);
  int last = last_child_with(children, producers(state.program().body, block));
  if (last < 0)
    return reject("no producer of block `{a}` is below loop `{b}`", block->name, loop->var->name)
        .about_loop(loop->id.value);
  TW_TRY_STATUS(fits_in_order(state, block, loop));
  TW_TRY_STATUS(keeps_company(state, block, to));
  VarRanges around = ranges_around(to);
  around.set_extent(loop->var, loop->extent);
  TW_TRY(List<Range> ranges, ranges_computed(state, block, loop, around, unfinished));
  TW_TRY_STATUS(computes_no_more(state, block, from, to, ranges));
  List<const Block*> sources = producers(state.program().body, block);
  std::erase_if(sources, [&](const Block* producer) { return !is_inside(loop, producer); });
  const Expr* condition = common_condition(state.build(), sources, around);
  Program before = state.program();
  const Stmt* anchor = is_first ? children[last] : children.back();
  move_after(state, block, anchor, nest_over(state, block, ranges, keep_units, around, condition));
  return concurrent_loops_stay_legal(state, id, before);
}

Status tw::steps::reverse_compute_at(State& state, BlockId block, Location at, bool keep_units, bool unfinished,
                                     Str position) {
  return apply(state, block, at, keep_units, unfinished, position);
}

REGISTER(reverse_compute_at,
         "Moves a consumer below a loop of its producers, where it uses up what one iteration has computed.")
