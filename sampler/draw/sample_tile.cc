// n factors of a loop, outer to inner, that need not divide its extent: the outermost is what is left, rounded up. The remainder
// becomes specialised tail code (lowering). Prior: half perfect tiles, half log-uniform, so that aligned tiles are common but every
// size can be drawn.
#include <algorithm>
#include <cmath>

#include "dsl/schedule/primitive.h"
#include "sampler/draw/tiles.h"

using namespace tw;

PRIMITIVE(sample_tile, Ints(LoopId loop, i64 n, i64 max_innermost = 0))

// Inner factors within [1, what is left]; the outermost covers the extent. True if nothing had to be changed.
static bool make_legal(i64 extent, i64 max_innermost, int n, i64* tile) {
  bool was_legal = true;
  i64 rest = extent;
  for (int i = n - 1; i > 0; --i) {
    i64 most = i == n - 1 && max_innermost > 0 ? std::min(rest, max_innermost) : rest;
    i64 legal = std::clamp<i64>(tile[i], 1, most);
    was_legal &= legal == tile[i];
    tile[i] = legal;
    rest = (rest + legal - 1) / legal;
  }
  was_legal &= tile[0] == rest;
  tile[0] = rest;
  return was_legal;
}

static Result<Ints> apply(const State& state, LoopId id, i64 n, i64 max_innermost, Draw draw) {
  TW_TRY(const For* loop, state.loop(id));
  if (n < 1 || n > Decision::kMax) return reject("expected 1 to {0} parts, found {1}", Decision::kMax, n);
  Decision& decision = *draw.decision;
  int parts = static_cast<int>(n);
  if (decision.open()) {
    if (!draw.rng) return reject("has no decision");
    decision.count = static_cast<u8>(n);
    if (draw.rng->below(2) == 0) {
      draw_perfect_tile(loop->extent, parts, max_innermost, *draw.rng, decision.values);
    } else {
      for (int i = 0; i < parts; ++i) {
        decision.values[i] = static_cast<i64>(std::exp(draw.rng->uniform() * std::log(static_cast<double>(loop->extent) + 0.999)));
      }
    }
    make_legal(loop->extent, max_innermost, parts, decision.values);
  }
  if (decision.count != n) return reject("decision has {0} factors, expected {1}", decision.count, n);
  if (!make_legal(loop->extent, max_innermost, parts, decision.values) && !draw.adapt) {
    return reject("the factors of the decision do not fit loop `{a}` of extent {0}", loop->var->name, loop->extent).about_loop(id.value);
  }
  return Ints(state.arena().copy(decision.values, static_cast<std::size_t>(n)));
}

REGISTER(sample_tile, "Draws n factors, outer to inner, that need not divide a loop's extent.")
