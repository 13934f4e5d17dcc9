#include "dsl/schedule/reindex.h"

#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/iter_map.h"
#include "dsl/analysis/simplify.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/move.h"

namespace tw {
namespace {

VarRanges domains_of(const Block* block) {
  VarRanges domains;
  for (const IterVar& iter : block->iters) domains.set_extent(iter.var, iter.extent);
  return domains;
}

bool occurs(const Var* var, Array<const Expr*> in) {
  return std::any_of(in.begin(), in.end(), [&](const Expr* e) { return uses(e, var); });
}

List<const Var*> vars_of(const List<const IterVar*>& iters) {
  List<const Var*> out;
  for (const IterVar* iter : iters) out.push_back(iter->var);
  return out;
}

Status is_function_of_iters(const Block* block, const Buffer* buffer, Array<const Expr*> indices) {
  VarRanges domains = domains_of(block);
  for (std::size_t d = 0; d < indices.size(); ++d) {
    bool known = true;
    walk(indices[d], [&](const Node* node) {
      const Var* var = as<Var>(node);
      known = known && node->kind != Kind::Load && (!var || domains.find(var));
      return true;
    });
    std::optional<Interval> reach = interval_of(indices[d], domains);
    if (known && reach && reach->min >= 0 && reach->max < buffer->shape[d]) continue;
    return reject("cannot prove that index {0} of `{b}` in block `{a}` is a function of its iters that stays inside",
                  block->name, buffer->name, static_cast<i64>(d))
        .about_block(block->id.value);
  }
  return ok();
}

// The ranges of the access's iters at path[at]; `exact` as in Region.
Region iters_at(State& state, const Path& path, int at, const PointAccess& access) {
  Build build = state.build();
  const Block* block = static_cast<const Block*>(path.back());
  List<i64> shape;
  List<const Expr*> iters;
  for (const IterVar* iter : access.iters) {
    shape.push_back(iter->extent);
    iters.push_back(iter->var);
  }
  Program before = state.program();
  const Buffer* probe = state.fresh_buffer("probe", access.buffer->dtype, state.arena().copy(shape), Scope::Global);
  const Stmt* store = build.store(probe, state.arena().copy(iters), build.number(0, probe->dtype));
  state.replace(block, build.with_body(block, nullptr, store));
  Path probed = *state.path_to(block->id);
  Region region = *region_of(state.arena(), probed[at], probe, AccessKind::Write, ranges_to(path, at));
  state.set_program(before);
  return region;
}

struct Elements {
  const Buffer* buffer;
  Array<const Expr*> indices;
};

// A block over the access's iters: to[..] = from[..].
const Block* mover_block(State& state, Str name, const PointAccess& access, const Elements& from, const Elements& to) {
  Build build = state.build();
  Substitution fresh;
  List<IterVar> iters;
  for (const IterVar* iter : access.iters) {
    const Var* var = state.fresh_var(iter->var->name);
    fresh.set(iter->var, var);
    iters.push_back({var, iter->extent, IterKind::S});
  }
  auto renamed = [&](Array<const Expr*> indices) {
    List<const Expr*> out;
    for (const Expr* index : indices) out.push_back(substitute(state.arena(), index, fresh));
    return state.arena().copy(out);
  };
  Block* block = state.arena().make<Block>(Block{});
  block->kind = Kind::Block;
  block->id = state.fresh_block();
  block->name = state.fresh_block_name(name);
  block->iters = state.arena().copy(iters);
  block->body = build.store(to.buffer, renamed(to.indices), build.load(from.buffer, renamed(from.indices)));
  return block;
}

const Block* with_stage(Arena& arena, const Block* block, const Buffer* from, const Stage& stage) {
  Build build{arena};
  auto change = [&](auto* n) {
    if constexpr (std::is_convertible_v<decltype(n), const Expr*>) {
      const Load* load = as<Load>(n);
      const Expr* e = n;
      return load && load->buffer == from ? build.load(stage.copy, stage.indices) : e;
    } else {
      const Stmt* s = n;
      const Store* store = as<Store>(n);
      if (!store) return s;
      List<StoreTarget> targets(store->targets.begin(), store->targets.end());
      for (StoreTarget& target : targets) {
        if (target.buffer == from) target = {stage.copy, stage.indices};
      }
      return build.store(arena.copy(targets), store->values);
    }
  };
  return build.with_body(block, rewrite(arena, block->init, change), rewrite(arena, block->body, change));
}

Result<BlockId> finish(State& state, BlockId id, const Stmt* anchor, const Stmt* nest, bool in_front, BlockId mover,
                       const Buffer* buffer, const Stage& stage) {
  Program before = state.program();
  in_front ? insert_before(state, anchor, nest) : insert_after(state, anchor, nest);
  const Block* block = *state.block(id);
  state.replace(block, with_stage(state.arena(), block, buffer, stage));
  state.add_local(stage.copy);
  TW_TRY_STATUS(concurrent_loops_stay_legal(state, id, before));
  return mover;
}

}  // namespace

Result<PointAccess> point_access(const Block* block, const Buffer* buffer) {
  TW_TRY(Array<const Expr*> indices, only_indices(block, buffer));
  TW_TRY_STATUS(is_function_of_iters(block, buffer, indices));
  PointAccess access{buffer, indices, {}};
  for (const IterVar& iter : block->iters) {
    if (occurs(iter.var, indices)) access.iters.push_back(&iter);
  }
  if (!access.iters.empty()) return access;
  return reject("block `{a}` accesses one element of `{b}` only", block->name, buffer->name)
      .about_block(block->id.value);
}

Stage stage_by_iters(State& state, const PointAccess& access) {
  List<i64> shape;
  List<const Expr*> indices;
  for (const IterVar* iter : access.iters) {
    shape.push_back(iter->extent);
    indices.push_back(iter->var);
  }
  const Buffer* copy = state.fresh_buffer(state.name(access.buffer->name, "_reindex"), access.buffer->dtype,
                                          state.arena().copy(shape), Scope::Global);
  return {copy, state.arena().copy(indices)};
}

Result<Stage> stage_by_map(State& state, const Block* block, PointAccess& access, const IndexMap& map, Scope scope) {
  i64 found = static_cast<i64>(map.params.size()), expected = static_cast<i64>(block->iters.size());
  if (found != expected) {
    return reject("the map has {0} parameters, but block `{a}` has {1} iters", block->name, found, expected)
        .about_block(block->id.value);
  }
  Substitution iters;
  access.iters.clear();
  for (std::size_t p = 0; p < map.params.size(); ++p) {
    const IterVar& iter = block->iters[p];
    iters.set(map.params[p], iter.var);
    bool is_unit_of_map = iter.extent == 1 && occurs(map.params[p], map.results);
    if (is_unit_of_map || occurs(iter.var, access.indices)) access.iters.push_back(&iter);
  }
  VarRanges domains = domains_of(block);
  List<const Expr*> indices;
  List<i64> shape;
  i64 places = 1, elements = 1;
  for (const Expr* result : map.results) {
    indices.push_back(simplify(state.arena(), substitute(state.arena(), result, iters), domains));
    std::optional<Interval> reach = interval_of(indices.back(), domains);
    if (!reach || reach->min < 0)
      return reject("cannot prove that the map of `{a}` gives no negative index", access.buffer->name);
    shape.push_back(reach->max + 1);
    if (__builtin_mul_overflow(places, reach->max + 1, &places))
      return reject("the map of `{a}` gives indices that are too large", access.buffer->name);
  }
  Array<const Expr*> at = state.arena().copy(indices);
  for (const IterVar& iter : block->iters) {
    if (iter.extent == 1 || occurs(iter.var, at) == occurs(iter.var, access.indices)) continue;
    return reject("iter `{b}` of block `{a}` must occur in the map and in the access, or in neither", block->name,
                  iter.var->name)
        .about_block(block->id.value);
  }
  if (!are_determined(vars_of(access.iters), indices, nullptr, domains))
    return reject("the map of `{a}` may give two elements one place", access.buffer->name);
  for (const IterVar* iter : access.iters) elements *= iter->extent;
  // Whoever copies the stage copies boxes of it: all of it must have been written.
  if (places > elements)
    return reject("the map of `{a}` spreads {0} elements over {1} places", access.buffer->name, elements, places);
  Str name = state.name(access.buffer->name, "_" + std::string(name_of(scope)));
  return Stage{state.fresh_buffer(name, access.buffer->dtype, state.arena().copy(shape), scope), at};
}

Result<BlockId> read_through(State& state, BlockId id, const PointAccess& access, const Stage& stage) {
  TW_TRY(Path path, state.path_to(id));
  const Block* block = static_cast<const Block*>(path.back());
  int at = highest_without_writer(path, access.buffer);
  if (at < 0)
    return reject("block `{a}` writes `{b}`, which it reads", block->name, access.buffer->name).about_block(id.value);
  TW_TRY_STATUS(is_written_before(state, block, access.buffer));
  Region region = iters_at(state, path, at, access);
  VarRanges around = ranges_to(path, at);
  const Block* mover =
      mover_block(state, stage.copy->name, access, {access.buffer, access.indices}, {stage.copy, stage.indices});
  const Stmt* nest =
      nest_over(state, mover, region.dims, false, around, common_condition(state.build(), {block}, around));
  // The copy runs for a box of the iters, the block perhaps for less of it, and nobody need have written what it leaves
  // out.
  if (!region.exact)
    TW_TRY_STATUS(somebody_writes_all_of(
        state, *region_of(state.arena(), nest, access.buffer, AccessKind::Read, around), path, at));
  return finish(state, id, path[at], nest, true, mover->id, access.buffer, stage);
}

Result<BlockId> write_through(State& state, BlockId id, const PointAccess& access, const Stage& stage) {
  TW_TRY(Path path, state.path_to(id));
  const Block* block = static_cast<const Block*>(path.back());
  TW_TRY_STATUS(is_complete_or_reduction(state.program().body, block));
  if (!are_determined(vars_of(access.iters), {access.indices.begin(), access.indices.end()}, nullptr,
                      domains_of(block))) {
    return reject("block `{a}` may write an element of `{b}` for several values of its iters", block->name,
                  access.buffer->name)
        .about_block(id.value);
  }
  int at = highest_without_reader(path, access.buffer);
  Region region = iters_at(state, path, at, access);
  if (!region.exact) {
    return reject("cannot prove that block `{a}` runs for a whole box of the iters that index `{b}`", block->name,
                  access.buffer->name)
        .about_block(id.value);
  }
  VarRanges around = ranges_to(path, at);
  const Block* mover =
      mover_block(state, stage.copy->name, access, {stage.copy, stage.indices}, {access.buffer, access.indices});
  const Stmt* nest =
      nest_over(state, mover, region.dims, false, around, common_condition(state.build(), {block}, around));
  return finish(state, id, path[at], nest, false, mover->id, access.buffer, stage);
}

}  // namespace tw
