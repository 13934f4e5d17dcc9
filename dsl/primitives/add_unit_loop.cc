// Puts a loop of extent 1 around a loop or a block: a place to compute something at, or an axis to bind.
//   for i in 8 { B[i] }   add_unit_loop(i)   ->   for u in 1 { for i in 8 { B[i] } }
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(add_unit_loop, LoopId(LoopOrBlock at))

static Result<const Stmt*> find(const State& state, LoopOrBlock at) {
  if (at.loop.value) {
    TW_TRY(const For* loop, state.loop(at.loop));
    return loop;
  }
  TW_TRY(const Block* block, state.block(at.block));
  return block;
}

static Result<LoopId> apply(State& state, LoopOrBlock at) {
  TW_TRY(const Stmt* inside, find(state, at));
  LoopId id = state.fresh_loop();
  state.replace(inside, state.build().loop(id, state.fresh_var("u"), 1, inside));
  return id;
}

REGISTER(add_unit_loop, "Puts a loop of extent 1 around a loop or a block.")
