// IdleRest: how long a machine that was woken for nothing lets others go first the next time. A notification wakes all
// machines that wait; where they are many, most of them find nothing, and each look costs the server as much as a
// lease. So each empty look behind a notification doubles the rest, in the manner of Ethernet's binary exponential
// backoff (Metcalfe and Boggs, CACM 1976).
#pragma once
#include <algorithm>
#include <cmath>

#include "dsl/base/rng.h"

namespace tw {

class IdleRest {
 public:
  explicit IdleRest(u64 seed) : rng_(seed) {}

  void note_woken() { is_woken_ = true; }
  void note_lease(bool has_found) {
    if (has_found)
      steps_ = std::max(0, steps_ - 2);
    else if (is_woken_)
      steps_ = std::min(steps_ + 1, kMostSteps);
    is_woken_ = false;
  }
  // Seconds from a notification to the look. `lease`: seconds that a lease takes.
  double seconds(double lease) {
    if (steps_ == 0) return 0;
    return rng_.uniform() * std::min(kShortest * std::exp2(steps_), longest(lease));
  }
  // So that a thousand machines that look in turn do not keep the server busy.
  static double longest(double lease) { return std::min(kLongest, kLeases * lease); }

 private:
  static constexpr int kMostSteps = 10;
  static constexpr double kShortest = 5e-3, kLongest = 4, kLeases = 100;
  Rng rng_;
  int steps_ = 0;
  bool is_woken_ = false;
};

}  // namespace tw
