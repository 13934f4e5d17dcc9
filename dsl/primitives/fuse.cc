// Joins loops that are directly inside each other into one.
//   for i in 4 { for j in 3 { B[i, j] } }   fuse([i, j])   ->   for i_j in 12 { B[i_j // 3, i_j % 3] }
// Applies to plain serial loops, outermost first, each the only statement of the one before. Without
// preserve_unit_iters the variable of a new loop with one iteration does not stand in bindings; the loop is there.
#include <algorithm>

#include "dsl/schedule/nest.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(fuse, LoopId(Loops loops, bool preserve_unit_iters = true))

static Status are_nested(const List<const For*>& loops) {
  for (std::size_t i = 0; i + 1 < loops.size(); ++i) {
    if (loops[i]->body != loops[i + 1]) {
      return reject("expected loop `{b}` to be the only statement of loop `{a}`", loops[i]->var->name,
                    loops[i + 1]->var->name)
          .about_loop(loops[i]->id.value)
          .about_loop(loops[i + 1]->id.value);
    }
  }
  return ok();
}

static Result<LoopId> apply(State& state, Loops ids, bool preserve_unit_iters) {
  if (ids.size() < 2) return reject("expected at least two loops, found {0}", static_cast<i64>(ids.size()));
  List<const For*> loops;
  for (LoopId id : ids) {
    TW_TRY(const For* loop, state.loop(id));
    TW_TRY_STATUS(is_plain(loop));
    loops.push_back(loop);
  }
  TW_TRY_STATUS(are_nested(loops));
  TW_TRY(Path path, state.path_to(ids[0]));

  Build build = state.build();
  i64 extent = 1;
  Str name;
  for (const For* loop : loops) {
    if (__builtin_mul_overflow(extent, loop->extent, &extent) || extent > kMaxIterations)
      return reject("the joined loop would have more than {0} iterations", kMaxIterations);
    name = state.with_name(name, "_", loop->var->name);
  }
  const Var* var = state.fresh_var(name);
  Substitution replaced;
  const Expr* value = preserve_unit_iters || extent > 1 ? var : build.integer(0);
  i64 inner = extent;  // product of the extents from here inwards
  for (const For* loop : loops) {
    const Expr* rest = inner == extent ? value : build.floor_mod(value, build.integer(inner));
    inner /= loop->extent;
    replaced.set(loop->var, build.floor_div(rest, build.integer(inner)));
  }
  VarRanges ranges = ranges_around(path);
  ranges.set_extent(var, extent);
  LoopId fused = state.fresh_loop();
  state.replace(loops[0], build.loop(fused, var, extent, rebind(state.arena(), loops.back()->body, replaced, ranges)));
  return fused;
}

REGISTER(fuse, "Joins loops that are directly inside each other into one.", .extents = Meaning::Extents::Fused)
