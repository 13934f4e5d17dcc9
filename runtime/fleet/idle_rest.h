// IdleRest: how long a machine that was woken for nothing lets others go first the next time. A notification wakes all
// machines that wait; where they are many, most of them find nothing, and each look costs the server as much as a
// lease. So each empty look behind a notification or a rest doubles the rest, in the manner of Ethernet's binary
// exponential backoff (Metcalfe and Boggs, CACM 1976). A machine that rests for long does not listen for notifications:
// the server would wake its session for each one.
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
  // Seconds from a notification to the look. `lease`: seconds that a lease takes longer than from an idle server.
  double seconds(double lease) { return rng_.uniform() * most(lease); }
  // Is the rest so long that the machine shall look without being told?
  bool is_long(double lease) const { return most(lease) >= kLong; }
  // So that a thousand machines that look in turn do not keep the server busy.
  static double longest(double lease) { return std::min(kLongest, kLeases * lease); }

 private:
  double most(double lease) const { return steps_ == 0 ? 0 : std::min(kShortest * std::exp2(steps_), longest(lease)); }

  static constexpr int kMostSteps = 12;
  static constexpr double kShortest = 5e-3, kLong = 2, kLongest = 16, kLeases = 100;
  Rng rng_;
  int steps_ = 0;
  bool is_woken_ = false;
};

}  // namespace tw
