// The copies of the loop's body are written out one after the other when the program is lowered.
//   for i in 4 { B[i] }   unroll(i)   ->   unroll for i in 4 { B[i] }
// Applies to any serial loop: the order of its iterations stays.
#include "dsl/schedule/nest.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(unroll, Unit(LoopId loop))

static Result<Unit> apply(State& state, LoopId id) {
  TW_TRY(const For* loop, state.loop(id));
  TW_TRY_STATUS(is_serial(loop));
  state.replace(loop, state.build().with_kind(loop, LoopKind::Unroll));
  return Unit{};
}

REGISTER(unroll, "The loop's iterations are written out one after the other.", .keeps_loops = true)
