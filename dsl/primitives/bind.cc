// The iterations of the loop run on an axis of the device's grid.
//   for i in 8 { B[i] }   bind(i, "threadIdx.x")   ->   bind threadIdx.x for i in 8 { B[i] }
// Applies as parallel does. An axis threadIdx also takes the loop of a reduction that is directly around its block: the
// work-items of a group combine their terms, which must be loads (rfactor makes them).
#include <algorithm>
#include <array>

#include "dsl/analysis/dependence.h"
#include "dsl/analysis/reducer.h"
#include "dsl/schedule/nest.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(bind, Unit(LoopId loop, Str thread))

static constexpr std::array<Str, 10> kThreads = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z", "threadIdx.x",
                                                 "threadIdx.y", "threadIdx.z", "vthread",    "vthread.x",
                                                 "vthread.y",   "vthread.z"};

static Result<Unit> apply(State& state, LoopId id, Str thread) {
  TW_TRY(Path path, state.path_to(id));
  const For* loop = static_cast<const For*>(path.back());
  auto known = std::find(kThreads.begin(), kThreads.end(), thread);
  if (known == kThreads.end()) {
    return reject("`{a}` is no thread axis; expected blockIdx, threadIdx or vthread with .x, .y or .z",
                  state.arena().text(thread));
  }
  TW_TRY_STATUS(is_serial(loop));
  const For* concurrent = state.build().with_kind(loop, LoopKind::Bind, *known);
  if (combines_work_items(concurrent))
    TW_TRY_STATUS(work_items_may_combine(concurrent));
  else
    TW_TRY_STATUS(iterations_may_overlap(state.arena(), state.program(), loop, ranges_around(path)));
  path.pop();
  path.push(concurrent);
  TW_TRY_STATUS(may_be_inside(path));
  state.replace(loop, concurrent);
  return Unit{};
}

REGISTER(bind, "The loop's iterations run on an axis of the device's grid.", .keeps_loops = true, .binds_axis = true)
