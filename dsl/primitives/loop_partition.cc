// Cuts a loop into consecutive loops.
//   for i in 10 { B[i] }     loop_partition(i, [4, _])   ->   for i in 4 { B_0[i] };  for i in 6 {
//   B_1[i + 4] }
// Applies to plain loops. The factors are the extents of the parts, at most one of them open (_):
// what is left. Each part has copies of the blocks and loops below, with handles and names of their
// own; the old handles end. Without preserve_unit_iters the variables of parts with one iteration
// do not stand in bindings; the loops are there. A part in which a reduction never begins has no init (source:
// LoopPartition of TensorIR).
#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(loop_partition, Loops(LoopId loop, Factors factors, bool preserve_unit_iters = true))

// The extents of the parts: together the loop's.
static Result<List<i64>> parts_of(const For* loop, Array<i64> factors) {
  if (factors.size() < 2) return reject("expected at least two parts, found {0}", static_cast<i64>(factors.size()));
  List<i64> parts(factors.begin(), factors.end());
  i64 known = 0, holes = 0;
  for (i64 part : parts) {
    if (part == Factors::kHole)
      ++holes;
    else if (part < 1)
      return reject("part {0} is not positive", part);
    else if (part > loop->extent)
      return reject("part {0} is longer than loop `{a}` of extent {1}", loop->var->name, part, loop->extent)
          .about_loop(loop->id.value);
    else
      known += part;
  }
  if (holes > 1) return reject("only one part may be left open, found {0} of them", holes);
  i64 rest = loop->extent - known;
  if (holes == 1 ? rest < 1 : rest != 0) {
    return reject("the parts given add up to {0}, but loop `{a}` has extent {1}", loop->var->name, known, loop->extent)
        .about_loop(loop->id.value);
  }
  for (i64& part : parts) {
    if (part == Factors::kHole) part = rest;
  }
  return parts;
}

namespace {

// A copy of what is below the loop, with fresh handles and variables.
class Copier {
 public:
  // `names` of the blocks made so far, which are not in the program yet.
  Copier(State& state, i64 part, List<Str>& names) : state_(state), part_(part), names_(names) {}

  const Stmt* stmt(const Stmt* s) {
    if (const Block* block = as<Block>(s)) return copy(block);
    if (const For* loop = as<For>(s)) return copy(loop);
    ChildMap map{this, nullptr, [](void* self, const Stmt* child) { return static_cast<Copier*>(self)->stmt(child); }};
    return with_children(state_.arena(), s, map);
  }
  void rename(const Var* from, const Expr* to) { vars_.set(from, to); }

 private:
  const Stmt* copy(const For* loop) {
    const Var* var = state_.fresh_var(loop->var->name);
    vars_.set(loop->var, var);
    For* out = state_.arena().make<For>(*loop);
    out->id = state_.fresh_loop();
    out->var = var;
    out->body = stmt(loop->body);
    return out;
  }
  const Stmt* copy(const Block* block) {
    Block* out = state_.arena().make<Block>(*block);
    out->id = state_.fresh_block();
    out->name = fresh_name(state_.name(block->name, "_" + std::to_string(part_)));
    Substitution iters;
    List<IterVar> fresh;
    List<const Expr*> bindings;
    for (std::size_t i = 0; i < block->iters.size(); ++i) {
      IterVar iter = block->iters[i];
      const Var* var = state_.fresh_var(iter.var->name);
      iters.set(iter.var, var);
      fresh.push_back({var, iter.extent, iter.kind});
      bindings.push_back(substitute(state_.arena(), block->bindings[i], vars_));
    }
    out->iters = state_.arena().copy(fresh);
    out->bindings = state_.arena().copy(bindings);
    out->predicate = block->predicate ? substitute(state_.arena(), block->predicate, vars_) : nullptr;
    out->init = block->init ? with_fresh_loops(state_, substitute(state_.arena(), block->init, iters)) : nullptr;
    out->body = with_fresh_loops(state_, substitute(state_.arena(), block->body, iters));
    return out;
  }

  Str fresh_name(Str wanted) {
    Str name = state_.fresh_block_name(wanted);
    while (std::find(names_.begin(), names_.end(), name) != names_.end())
      name = state_.fresh_block_name(state_.name(name, "_1"));
    names_.push_back(name);
    return name;
  }

  State& state_;
  i64 part_;
  List<Str>& names_;
  Substitution vars_;
};

// Blocks of which a reduction iter is never 0 here are not initialised here.
const Stmt* without_dead_inits(Arena& arena, const Stmt* part, VarRanges ranges) {
  for_each<For>(part, [&](const For* loop) { ranges.set_extent(loop->var, loop->extent); });
  return rewrite_stmts(arena, part, [&](const Stmt* s) -> const Stmt* {
    const Block* block = as<Block>(s);
    bool never = false;
    for (std::size_t i = 0; block && block->init && i < block->iters.size(); ++i) {
      std::optional<Interval> values = interval_of(block->bindings[i], ranges);
      never |= block->iters[i].kind == IterKind::R && values && values->min > 0;
    }
    return never ? Build{arena}.with_body(block, nullptr, block->body) : s;
  });
}

}  // namespace

static Result<Loops> apply(State& state, LoopId id, Factors factors, bool preserve_unit_iters) {
  TW_TRY(Path path, state.path_to(id));
  const For* loop = static_cast<const For*>(path.back());
  TW_TRY_STATUS(is_plain(loop));
  TW_TRY(List<i64> parts, parts_of(loop, factors.values));

  Build build = state.build();
  List<const Stmt*> nests;
  List<LoopId> ids;
  List<Str> names;
  i64 start = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Var* var = state.fresh_var(loop->var->name);
    VarRanges ranges = ranges_around(path);
    ranges.set_extent(var, parts[i]);
    Copier copier(state, static_cast<i64>(i), names);
    const Var* shifted = state.fresh_var(loop->var->name);
    copier.rename(loop->var, shifted);
    Substitution shift;
    const Expr* own = preserve_unit_iters || parts[i] > 1 ? var : build.integer(0);
    shift.set(shifted, build.add(own, start));
    ids.push_back(state.fresh_loop());
    const Stmt* body = rebind(state.arena(), copier.stmt(loop->body), shift, ranges);
    nests.push_back(build.loop(ids.back(), var, parts[i], without_dead_inits(state.arena(), body, ranges)));
    start += parts[i];
  }
  Program before = state.program();
  const Stmt* all = build.seq(nests);
  state.replace(loop, all);
  // A buffer that was private to the workers of one loop below may now be shared by those of
  // several.
  for (const Block* block : blocks_in(all)) TW_TRY_STATUS(concurrent_loops_stay_legal(state, block->id, before));
  return Loops(state.arena().copy(ids));
}

REGISTER(loop_partition, "Cuts a loop into consecutive loops with the extents given; `_` stands for what is left.")
