// AnswerTime: how long a server takes to answer. The mean is that of the last few answers; the quickest one is about
// the way to the server and back, which says nothing about the server's load.
#pragma once
#include <algorithm>
#include <limits>

namespace tw {

class AnswerTime {
 public:
  void note(double seconds) {
    constexpr double kNewest = 0.25;  // share of the mean
    constexpr double kMost = 1;       // a server that was away is not slow for long
    const double taken = std::min(seconds, kMost);
    quickest_ = std::min(quickest_, taken);
    mean_ += kNewest * (taken - mean_);
  }
  double mean() const { return mean_; }                                        // seconds; 0 before the first answer
  double beyond_quickest() const { return std::max(mean_ - quickest_, 0.0); }  // what the server's load costs
  double quickest() const { return quickest_; }                                // infinite before the first answer

 private:
  double mean_ = 0, quickest_ = std::numeric_limits<double>::infinity();
};

}  // namespace tw
