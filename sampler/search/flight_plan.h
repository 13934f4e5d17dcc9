// How many trials are on their way at once, by the number and the speed of the machines that measure them: so many that
// no machine waits for the search, and no more, because what is in flight is not known when the next batch is searched.
// Used by tune.cc.
#pragma once
#include "dsl/base/arena.h"

namespace tw {

// Who measures for a tuner.
struct MeasuringCapacity {
  int machines = 1;              // this tuner's share of them
  double trials_per_second = 0;  // that they measured lately; 0 = not known yet
};

struct FlightPlan {
  // One batch is measured while the next one is searched, with all results before it: the candidates follow from the
  // seed and the measurements. Else as many are in flight as are needed, and each batch is searched with the results
  // that are there.
  bool is_wide = false;
  i64 batch = 0;  // trials of the next batch, at least
  i64 depth = 0;  // the next batch is searched when no more trials than these are in flight
};

// `round_seconds`: of finding a batch; 0 = not known yet.
FlightPlan plan_flight(const MeasuringCapacity& capacity, double round_seconds);

}  // namespace tw
