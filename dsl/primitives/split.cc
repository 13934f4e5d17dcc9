// Cuts one loop into a nest of several, outer to inner.
//   for i in 10 { B[i] }     split(i, [_, 4])
//   ->   for i_0 in 3 { for i_1 in 4 { B[i_0 * 4 + i_1] where i_0 * 4 + i_1 < 10 } }
// At most one factor is open (_): what is left, rounded up. Factors need not divide the extent: then the blocks inside
// get a predicate, which lowering turns into specialised tail code. With disable_predication they must not need one:
// the factors divide, or what the blocks' predicates say already keeps the loop from running too far. Without
// preserve_unit_iters the variables of new loops with one iteration do not stand in bindings; the loops are there.
#include "dsl/analysis/block_info.h"
#include "dsl/analysis/bounds.h"
#include "dsl/schedule/nest.h"
#include "dsl/schedule/steps.h"

using namespace tw;

PRIMITIVE(split, Loops(LoopId loop, Factors factors, bool preserve_unit_iters = true, bool disable_predication = false))

// The factors with the hole filled: their product is at least the extent.
static Result<Array<i64>> fill(Arena& arena, const For* loop, Array<i64> factors) {
  i64 known = 1, holes = 0;
  for (i64 factor : factors) {
    if (factor == Factors::kHole) {
      ++holes;
    } else if (factor < 1) {
      return reject("factor {0} is not positive", factor);
    } else if (__builtin_mul_overflow(known, factor, &known) || known > kMaxIterations) {
      return reject("factors multiply to more than {0} iterations", kMaxIterations);
    }
  }
  if (holes > 1) return reject("only one factor may be left open, found {0} of them", holes);
  if (holes == 0 && known < loop->extent) {
    return reject("factors multiply to {0}, but loop `{a}` has extent {1}", loop->var->name, known, loop->extent)
        .about_loop(loop->id.value);
  }
  List<i64> filled(factors.begin(), factors.end());
  for (i64& factor : filled) {
    if (factor == Factors::kHole) factor = (loop->extent + known - 1) / known;
  }
  return arena.copy(filled);
}

// Do the predicates of the blocks below keep `index` below the loop's extent already?
static Status needs_no_predicate(const For* loop, const Stmt* body, const Expr* index, i64 product, VarRanges ranges) {
  for_each<For>(body, [&](const For* inner) { ranges.set_extent(inner->var, inner->extent); });
  for (const Block* block : blocks_in(body)) {
    std::optional<Interval> reach = bounded_interval(sum_of(index), ranges, bounds_of(block->predicate, ranges));
    if (reach && reach->max < loop->extent) continue;
    return reject(
               "the factors overshoot loop `{a}` by {0} iterations, and without a predicate nothing keeps block `{b}` "
               "from running in them",
               loop->var->name, block->name, product - loop->extent)
        .about_loop(loop->id.value);
  }
  return ok();
}

static Result<Loops> apply(State& state, LoopId id, Factors factors, bool preserve_unit_iters,
                           bool disable_predication) {
  TW_TRY(Path path, state.path_to(id));
  const For* loop = static_cast<const For*>(path.back());
  if (factors.values.empty()) return reject("expected at least one factor");
  TW_TRY_STATUS(is_plain(loop));
  TW_TRY(Array<i64> extents, fill(state.arena(), loop, factors.values));

  Build build = state.build();
  List<const Var*> vars;
  List<LoopId> ids;
  const Expr* index = nullptr;
  i64 product = 1;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    vars.push_back(state.fresh_var(state.name(loop->var->name, "_" + std::to_string(i))));
    ids.push_back(state.fresh_loop());
    const Expr* own = preserve_unit_iters || extents[i] > 1 ? vars[i] : build.integer(0);
    index = index ? build.add(build.mul(index, extents[i]), own) : own;
    product *= extents[i];
  }
  // Distribute: i_0 * 8 + i_1 * 4 + i_2 rather than (i_0 * 2 + i_1) * 4 + i_2.
  if (std::optional<LinearForm> form = linear_form(index)) index = to_expr(state.arena(), *form);
  Substitution replaced;
  replaced.set(loop->var, index);
  VarRanges ranges = ranges_around(path);
  for (std::size_t i = 0; i < extents.size(); ++i) ranges.set_extent(vars[i], extents[i]);
  const Stmt* body = rebind(state.arena(), loop->body, replaced, ranges);
  if (product > loop->extent && disable_predication)
    TW_TRY_STATUS(needs_no_predicate(loop, body, index, product, ranges));
  if (product > loop->extent && !disable_predication)
    body = with_limit(state.arena(), body, index, loop->extent, ranges);
  for (std::size_t i = extents.size(); i-- > 0;) body = build.loop(ids[i], vars[i], extents[i], body);
  state.replace(loop, body);
  return Loops(state.arena().copy(ids));
}

Result<Loops> tw::steps::split(State& state, LoopId loop, Factors factors, bool preserve_unit_iters,
                               bool disable_predication) {
  return apply(state, loop, factors, preserve_unit_iters, disable_predication);
}

REGISTER(split, "Cuts one loop into a nest of several, outer to inner; `_` stands for what is left.",
         .extents = Meaning::Extents::Split)
