// The iterations of the loop are shared among the workers.
//   for i in 8 { B[i] }   parallel(i)   ->   parallel for i in 8 { B[i] }
// Applies if the loop is serial, feeds only S iters, and each iteration computes what it reads. A buffer that is used
// only below the loop becomes each worker's own.
#include "dsl/analysis/dependence.h"
#include "dsl/schedule/nest.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(parallel, Unit(LoopId loop))

static Result<Unit> apply(State& state, LoopId id) {
  TW_TRY(Path path, state.path_to(id));
  const For* loop = static_cast<const For*>(path.back());
  TW_TRY_STATUS(is_serial(loop));
  TW_TRY_STATUS(iterations_may_overlap(state.arena(), state.program(), loop, ranges_around(path)));
  const For* concurrent = state.build().with_kind(loop, LoopKind::Parallel);
  path.pop();
  path.push(concurrent);
  TW_TRY_STATUS(may_be_inside(path));
  state.replace(loop, concurrent);
  return Unit{};
}

REGISTER(parallel, "The loop's iterations are shared among the workers.", .keeps_loops = true, .is_parallel = true)
