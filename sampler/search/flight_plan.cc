#include "sampler/search/flight_plan.h"

#include <algorithm>
#include <cmath>

namespace tw {

FlightPlan plan_flight(const MeasuringCapacity& capacity, double round_seconds) {
  constexpr double kHeld = 4;       // trials that a machine has at hand: one is measured, the others are compiled
  constexpr double kMargin = 1.25;  // rounds are not equally long
  constexpr double kLargestBatch = 1024;
  if (capacity.machines <= 1) return {};
  double machines = capacity.machines, in_a_round = kMargin * capacity.trials_per_second * round_seconds;
  return {.is_wide = true,
          .batch = static_cast<i64>(std::ceil(std::clamp(in_a_round, machines, std::max(machines, kLargestBatch)))),
          .depth = static_cast<i64>(std::ceil(kHeld * machines + in_a_round))};
}

}  // namespace tw
