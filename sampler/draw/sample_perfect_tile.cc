// n factors of a loop's extent, outer to inner, whose product is exactly the extent (MetaSchedule's semantics).
#include "dsl/schedule/primitive.h"
#include "sampler/draw/tiles.h"

using namespace tw;

PRIMITIVE(sample_perfect_tile, Ints(LoopId loop, i64 n, i64 max_innermost = 16))

static Result<Ints> apply(const State& state, LoopId id, i64 n, i64 max_innermost, Draw draw) {
  TW_TRY(const For* loop, state.loop(id));
  if (n < 1 || n > Decision::kMax) return reject("expected 1 to {0} parts, found {1}", Decision::kMax, n);
  Decision& decision = *draw.decision;
  if (decision.open()) {
    if (!draw.rng) return reject("has no decision");
    decision.count = static_cast<u8>(n);
    draw_perfect_tile(loop->extent, static_cast<int>(n), max_innermost, *draw.rng, decision.values);
  }
  if (decision.count != n) return reject("decision has {0} factors, expected {1}", decision.count, n);
  if (!fit_perfect_tile(loop->extent, static_cast<int>(n), decision.values) && !draw.adapt) {
    return reject("the factors of the decision do not multiply to {0}, the extent of loop `{a}`", loop->var->name,
                  loop->extent)
        .about_loop(id.value);
  }
  return Ints(state.arena().copy(decision.values, static_cast<std::size_t>(n)));
}

REGISTER(sample_perfect_tile, "Draws n factors, outer to inner, whose product is a loop's extent.",
         .draws = Meaning::Draws::Divisors)
