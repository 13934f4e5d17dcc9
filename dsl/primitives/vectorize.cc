// The iterations of the loop are the lanes of vectors.
//   for j in 16 { B[j] }   vectorize(j)   ->   vectorize for j in 16 { B[j] }
// Applies if the loop is serial, feeds only S iters, and each iteration computes what it reads and writes elements of
// its own.
#include "dsl/analysis/dependence.h"
#include "dsl/schedule/nest.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(vectorize, Unit(LoopId loop))

static Result<Unit> apply(State& state, LoopId id) {
  TW_TRY(Path path, state.path_to(id));
  const For* loop = static_cast<const For*>(path.back());
  TW_TRY_STATUS(is_serial(loop));
  TW_TRY_STATUS(iterations_may_interleave(state.arena(), state.program(), loop, ranges_around(path)));
  const For* vectorized = state.build().with_kind(loop, LoopKind::Vectorize);
  TW_TRY_STATUS(may_contain_all_below(vectorized));
  state.replace(loop, vectorized);
  return Unit{};
}

REGISTER(vectorize, "The loop's iterations become the lanes of vectors.", .keeps_loops = true)
