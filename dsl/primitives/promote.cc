// Keeps the tile of the output that a reduction loop accumulates into in registers while the loop runs.
//   for i0 { for k { for i1 in 4 { D[i0 * 4 + i1, k] { init { D[i] = 0 } D[i] += A[i, k] } } } }     promote(D, 0, k)
//   ->   for i0 { for i1 { R[i1] = 0 };  for k { for i1 { R[i % 4] += A[i, k] } };  for i1 { D[i] = R[i % 4] } }
// Applies to a reduction block that writes one buffer, and a loop that feeds only R iters, below which the block
// touches a box of constant size that starts at a multiple of its size; or elements with equal steps between them, as
// rows of one phase of a transposed convolution are. If reduction loops are outside, or the init was decomposed before,
// the tile is loaded instead of initialised, except where these loops are at their first value. Tails: rows that a
// predicate takes away are neither computed nor loaded nor stored. The loops of the new blocks are unrolled, the one
// along the rows of the output is vectorized; bound ones stay bound.
#include <algorithm>
#include <numeric>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/bounds.h"
#include "dsl/analysis/simplify.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(promote, Unit(BlockId block, i64 write_index, LoopId loop))

namespace {

constexpr i64 kMaxUnrolled =
    64;  // longer loops of the new blocks stay serial; a tile of that size does not fit in registers anyway

// Everything that is known when all checks have passed.
struct Plan {
  Path path;  // to the block
  const Block* block;
  int at;  // index of the loop in the path
  const Buffer* buffer;
  Array<const Expr*> indices;  // of the accumulator
  List<i64> steps;             // between the elements of the tile, for each dimension
  Region tile;                 // of the indices divided by the steps
  List<const For*> outer_reductions;
};

// The block's iters as the loops around it give them.
Substitution bindings_of(const Block* block) {
  Substitution bindings;
  for (std::size_t i = 0; i < block->iters.size(); ++i) bindings.set(block->iters[i].var, block->bindings[i]);
  return bindings;
}

const Expr* divided(const Build& build, const Expr* index, i64 step) {
  return step == 1 ? index : build.floor_div(index, build.integer(step));
}

// The largest step that all loops from the path's `at` on take along an index.
i64 step_of(Arena& arena, const Plan& plan, const Expr* index) {
  std::optional<LinearForm> form = linear_form(substitute(arena, index, bindings_of(plan.block)));
  if (!form) return 1;
  i64 step = 0;
  for (int i = plan.at; i < plan.path.size(); ++i) {
    const For* loop = as<For>(plan.path[i]);
    if (loop && loop->extent > 1) step = std::gcd(step, form->coefficient(loop->var));
  }
  return std::max<i64>(step, 1);
}

// Does the condition only say that an index lies inside of the buffer?
bool is_border(Arena& arena, const Plan& plan, const Expr* condition) {
  const Binary* less = as<Binary>(condition);
  if (!less || less->op != BinaryOp::Lt) return false;
  Build build{arena};
  Substitution bindings = bindings_of(plan.block);
  for (std::size_t d = 0; d < plan.indices.size(); ++d) {
    const Expr* room = build.sub(substitute(arena, plan.indices[d], bindings), build.integer(plan.buffer->shape[d]));
    if (is_constant(simplify(arena, build.sub(build.sub(less->a, less->b), room), {}), 0)) return true;
  }
  return false;
}

// The region of the indices divided by the steps, of which `plan` has one for each dimension.
Region divided_region(State& state, const Plan& plan, const For* loop) {
  Arena& arena = state.arena();
  Build build = state.build();
  Buffer* quotient = arena.make<Buffer>(*plan.buffer);
  List<i64> shape;
  List<const Expr*> indices;
  for (std::size_t d = 0; d < plan.indices.size(); ++d) {
    shape.push_back((plan.buffer->shape[d] + plan.steps[d] - 1) / plan.steps[d]);
    indices.push_back(divided(build, plan.indices[d], plan.steps[d]));
  }
  quotient->shape = arena.copy(shape);
  const Store* store = as<Store>(plan.block->body);
  Block* block = arena.make<Block>(*plan.block);
  block->init = nullptr;
  block->body = build.store(quotient, arena.copy(indices), store->values[0]);
  List<const Expr*> conditions;
  for (const Expr* condition : conjuncts_of(block->predicate)) {
    if (!is_border(arena, plan, condition)) conditions.push_back(condition);
  }
  block->predicate = conjunction(build, conditions);
  const Stmt* nest = rewrite_stmts(arena, loop, [&](const Stmt* s) { return s == plan.block ? block : s; });
  return *region_of(arena, nest, quotient, AccessKind::Write, ranges_to(plan.path, plan.at), block);
}

// The tile starts at multiples of its extents, so that i % extent is the place in the tile.
Status is_aligned(const Plan& plan, const For* loop) {
  if (!plan.tile.exact) {
    return reject("cannot prove that block `{a}` fills a box of `{b}` below the loop", plan.block->name,
                  plan.buffer->name)
        .about_loop(loop->id.value)
        .about_block(plan.block->id.value);
  }
  for (std::size_t d = 0; d < plan.tile.dims.size(); ++d) {
    const Range& range = plan.tile.dims[d];
    if (known_divisor(range.min) % range.extent != 0) {
      return reject("along dimension {0} the tile of `{a}` has extent {1} but starts at multiples of {2}",
                    plan.buffer->name, static_cast<i64>(d), range.extent, known_divisor(range.min))
          .about_loop(loop->id.value);
    }
  }
  return ok();
}

Status accumulates_alone(const For* loop, const Block* block, const Buffer* buffer) {
  for (const Block* other : blocks_in(loop)) {
    if (other != block && (reads_buffer(other, buffer) || writes_buffer(other, buffer))) {
      return reject("block `{a}` also uses `{b}` below the loop", other->name, buffer->name)
          .about_block(other->id.value)
          .about_loop(loop->id.value);
    }
  }
  return ok();
}

Result<Plan> plan_for(State& state, BlockId id, i64 write_index, LoopId loop_id) {
  TW_TRY(Path path, state.path_to(id));
  const Block* block = static_cast<const Block*>(path.back());
  TW_TRY(const For* loop, state.loop(loop_id));
  TW_TRY_STATUS(is_below(path, loop));
  Plan plan{path, block, path.index_of(loop), nullptr, {}, {}, {}, {}};
  List<const Buffer*> written = buffers_written(block);
  TW_TRY(plan.buffer, buffer_at(block, written, write_index, "written"));
  if (written.size() != 1) {
    return reject("block `{a}` writes {0} buffers together; expected one", block->name,
                  static_cast<i64>(written.size()))
        .about_block(id.value);
  }
  TW_TRY_STATUS(check_feeds_only_reduction(loop, block));
  if (!as<Store>(block->body))
    return reject("expected the body of block `{a}` to be one store", block->name).about_block(id.value);
  if (block->init) {
    TW_TRY_STATUS(is_reduction(state.program().body, block));
    if (!as<Store>(block->init))
      return reject("expected the init of block `{a}` to be one store", block->name).about_block(id.value);
    TW_TRY_STATUS(init_can_be_before(block, loop));
  }
  TW_TRY(plan.indices, only_indices(block, plan.buffer));
  TW_TRY_STATUS(accumulates_alone(loop, block, plan.buffer));
  plan.tile = *region_of(state.arena(), loop, plan.buffer, AccessKind::Write, ranges_to(path, plan.at), block);
  plan.steps = List<i64>(plan.indices.size(), 1);
  if (!plan.tile.exact) {
    for (std::size_t d = 0; d < plan.indices.size(); ++d) plan.steps[d] = step_of(state.arena(), plan, plan.indices[d]);
    if (*std::max_element(plan.steps.begin(), plan.steps.end()) > 1) plan.tile = divided_region(state, plan, loop);
  }
  TW_TRY_STATUS(is_aligned(plan, loop));
  TW_TRY_STATUS(loops_do_not_repeat(state.arena(), path, plan.at, path.size() - 1, true));
  for (int i = 0; i < path.size(); ++i) {
    const For* other = as<For>(path[i]);
    if (!other || !feeds(other, block, IterKind::R) || other->extent == 1) continue;
    TW_TRY_STATUS(check_feeds_only_reduction(other, block));
    if (i < plan.at) plan.outer_reductions.push_back(other);
  }
  return plan;
}

// Places in the tile of the accumulator's indices.
Array<const Expr*> places(Arena& arena, const Plan& plan, Array<const Expr*> indices) {
  Build build{arena};
  List<const Expr*> out;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const Range& range = plan.tile.dims[d];
    bool whole = plan.steps[d] == 1 && is_whole_dimension(range, plan.buffer->shape[d]);
    const Expr* index = divided(build, indices[d], plan.steps[d]);
    out.push_back(whole ? index : build.floor_mod(index, build.integer(range.extent)));
  }
  return arena.copy(out);
}

// The loops of a new block: bound ones stay with the work-items that compute the tile; the others unrolled, and
// vectorized where consecutive values are consecutive in the output, that one innermost.
const Stmt* tile_nest(State& state, const MirroredNest& mirror, const Stmt* block, const Expr* last_index) {
  Build build = state.build();
  const For* vector = nullptr;
  List<const For*> bound, loops;
  for (std::size_t i = 0; i < mirror.fresh.size(); ++i) {
    const For* loop = mirror.fresh[i];
    if (mirror.mirrored[i]->loop_kind == LoopKind::Bind) {
      bound.push_back(build.with_kind(loop, LoopKind::Bind, mirror.mirrored[i]->thread));
      continue;
    }
    std::optional<LinearForm> form = linear_form(last_index);
    bool unit_stride = form && form->coefficient(loop->var) == 1;
    if (unit_stride && loop->extent > 1 && mirror.mirrored[i]->loop_kind != LoopKind::Unroll) {
      vector = build.with_kind(loop, LoopKind::Vectorize);
    } else {
      loops.push_back(loop->extent <= kMaxUnrolled ? build.with_kind(loop, LoopKind::Unroll) : loop);
    }
  }
  const Stmt* nest = vector ? static_cast<const Stmt*>(build.with_body(vector, block)) : block;
  bound.insert(bound.end(), loops.begin(), loops.end());
  for (std::size_t i = bound.size(); i-- > 0;) nest = build.with_body(bound[i], nest);
  return nest;
}

Array<const Expr*> substituted(Arena& arena, Array<const Expr*> list, const Substitution& map) {
  List<const Expr*> out;
  for (const Expr* e : list) out.push_back(substitute(arena, e, map));
  return arena.copy(out);
}

// The last index of the output as the loops of a nest give it.
const Expr* last_index_of(Arena& arena, const Block* block, Array<const Expr*> indices) {
  return indices.empty() ? Build{arena}.integer(0) : substitute(arena, indices.back(), bindings_of(block));
}

Block* named_copy(State& state, const MirroredNest& mirror, Str name, const char* suffix) {
  Block* block = state.arena().make<Block>(*mirror.block);
  block->id = state.fresh_block();
  block->name = state.fresh_block_name(state.name(name, suffix));
  block->init = nullptr;
  block->annotations = {};
  return block;
}

const Stmt* store_nest(State& state, const Plan& plan, const Buffer* tile) {
  MirroredNest mirror = mirror_loops(state, plan.block, plan.path, plan.at);
  Block* block = named_copy(state, mirror, plan.block->name, "_store");
  Array<const Expr*> at = substituted(state.arena(), plan.indices, mirror.iters);
  block->body = state.build().store(plan.buffer, at, state.build().load(tile, places(state.arena(), plan, at)));
  return tile_nest(state, mirror, block, last_index_of(state.arena(), block, at));
}

// R iters that outer reduction loops feed stay, bound to their values at the start of the tile: where all are 0 the
// tile is new.
const Expr* keep_outer_reductions(State& state, const Plan& plan, const MirroredNest& mirror, Block* block) {
  Build build = state.build();
  List<IterVar> iters(block->iters.begin(), block->iters.end());
  List<const Expr*> bindings(block->bindings.begin(), block->bindings.end());
  const Expr* first = nullptr;
  for (std::size_t i = 0; i < plan.block->iters.size(); ++i) {
    const IterVar& iter = plan.block->iters[i];
    auto feeds_it = [&](const For* loop) { return uses(plan.block->bindings[i], loop->var); };
    if (iter.kind == IterKind::S || std::none_of(plan.outer_reductions.begin(), plan.outer_reductions.end(), feeds_it))
      continue;
    const Var* var = state.fresh_var(iter.var->name);
    iters.push_back({var, iter.extent, iter.kind});
    bindings.push_back(simplify(state.arena(), substitute(state.arena(), plan.block->bindings[i], mirror.loops),
                                ranges_around(plan.path)));
    first = build.both(first, build.binary(BinaryOp::Eq, var, build.integer(0)));
  }
  block->iters = state.arena().copy(iters);
  block->bindings = state.arena().copy(bindings);
  return first;
}

bool only_uses(const Expr* e, const VarRanges& vars) {
  bool only = true;
  for_each<Var>(e, [&](const Var* var) { only &= vars.find(var) != nullptr; });
  return only;
}

// An init that is the same everywhere needs no tails: the block's iters become the places in the tile. False if that
// cannot be expressed.
bool cover_whole_tile(State& state, const Plan& plan, const Expr* start, const MirroredNest& mirror, Block* block) {
  Build build = state.build();
  Arena& arena = state.arena();
  if (start->kind != Kind::FloatImm && start->kind != Kind::IntImm) return false;
  std::optional<List<int>> iters = iters_as_indices(plan.block, plan.indices);
  if (!iters) return false;
  VarRanges around = ranges_to(plan.path, plan.at), fresh;
  for (const For* loop : mirror.fresh) {
    around.set_extent(loop->var, loop->extent);
    fresh.set_extent(loop->var, loop->extent);
  }
  List<IterVar> places;
  List<const Expr*> bindings, kept;
  for (std::size_t d = 0; d < iters->size(); ++d) {
    const Range& range = plan.tile.dims[d];
    const Expr* binding =
        (*iters)[d] < 0 ? build.integer(0) : substitute(arena, plan.block->bindings[(*iters)[d]], mirror.loops);
    bindings.push_back(simplify(arena, build.sub(divided(build, binding, plan.steps[d]), range.min), around));
    if (!only_uses(bindings.back(), fresh)) return false;
    Str name = (*iters)[d] < 0 ? Str("a") : plan.block->iters[(*iters)[d]].var->name;
    places.push_back({state.fresh_var(name), range.extent, IterKind::S});
  }
  for (const Expr* conjunct : conjuncts_of(block->predicate)) {
    if (only_uses(conjunct, fresh)) kept.push_back(conjunct);
  }
  // A tile that is cut to the buffer is smaller than what its loops count.
  const Expr* predicate = conjunction(build, kept);
  List<Bound> bounds = bounds_of(predicate, fresh);
  for (std::size_t d = 0; d < places.size(); ++d) {
    std::optional<Interval> reach = bounded_interval(sum_of(bindings[d]), fresh, bounds);
    if (!reach || reach->min < 0 || reach->max >= places[d].extent) return false;
  }
  block->iters = arena.copy(places);
  block->bindings = arena.copy(bindings);
  block->predicate = predicate;
  return true;
}

const Stmt* load_nest(State& state, const Plan& plan, const Buffer* tile) {
  Build build = state.build();
  MirroredNest mirror = mirror_loops(state, plan.block, plan.path, plan.at);
  Block* block = named_copy(state, mirror, plan.block->name, "_load");
  Array<const Expr*> at = substituted(state.arena(), plan.indices, mirror.iters);
  const Expr* last = last_index_of(state.arena(), block, at);
  const Expr* value = build.load(plan.buffer, at);
  if (plan.block->init) {
    const Expr* start = substitute(state.arena(), as<Store>(plan.block->init)->values[0], mirror.iters);
    if (plan.outer_reductions.empty() && cover_whole_tile(state, plan, start, mirror, block)) {
      List<const Expr*> inside;
      for (const IterVar& iter : block->iters) inside.push_back(iter.var);
      block->body = build.store(tile, state.arena().copy(inside), start);
      return tile_nest(state, mirror, block, block->bindings.empty() ? build.integer(0) : block->bindings.back());
    }
    const Expr* first = keep_outer_reductions(state, plan, mirror, block);
    value = first ? build.select(first, start, value) : start;
  }
  block->body = build.store(tile, places(state.arena(), plan, at), value);
  return tile_nest(state, mirror, block, last);
}

}  // namespace

static Result<Unit> apply(State& state, BlockId id, i64 write_index, LoopId loop_id) {
  TW_TRY(Plan plan, plan_for(state, id, write_index, loop_id));
  Arena& arena = state.arena();
  Program before = state.program();
  List<i64> shape;
  for (const Range& range : plan.tile.dims) shape.push_back(range.extent);
  const Buffer* tile = state.fresh_buffer(state.name(plan.buffer->name, "_register"), plan.buffer->dtype,
                                          arena.copy(shape), Scope::Register);
  state.add_local(tile);
  const Stmt *load = load_nest(state, plan, tile), *store = store_nest(state, plan, tile);
  Array<const Expr*> inside = places(arena, plan, plan.indices);
  auto change = [&](const Expr* e) {
    const Load* old = as<Load>(e);
    return old && old->buffer == plan.buffer ? state.build().load(tile, inside) : e;
  };
  const Store* update = as<Store>(plan.block->body);
  const Stmt* body = state.build().store(tile, inside, rewrite_exprs(arena, update->values[0], change));
  state.replace(plan.block, state.build().with_body(plan.block, nullptr, body));
  TW_TRY(const For* loop, state.loop(loop_id));
  state.replace(loop, state.build().seq({load, loop, store}));
  return concurrent_loops_stay_legal(state, id, before);
}

REGISTER(promote,
         "Keeps the tile of the output that a reduction loop accumulates into in registers while the loop runs.")
