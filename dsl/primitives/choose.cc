// One of several loops, by an index that may come from a sample: how "at this loop or at that one" becomes a decision.
//   v = sample_categorical([0, 1]);  at = choose([i, j], v);  compute_at(b, at)
// Applies if the index is one of 0, 1, ... of the list and the loop still exists.
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(choose, LoopId(Loops loops, i64 index))

static Result<LoopId> apply(const State& state, Loops loops, i64 index) {
  i64 count = static_cast<i64>(loops.size());
  if (count == 0) return reject("expected at least one loop");
  if (index < 0 || index >= count) return reject("index {0} is out of range: there are {1} loops", index, count);
  LoopId chosen = loops[static_cast<std::size_t>(index)];
  TW_TRY(const For* loop, state.loop(chosen));
  return loop->id;
}

REGISTER(choose, "One of several loops, by an index that may come from a sample.", .picks = true)
