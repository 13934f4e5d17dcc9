// AnswerTime: how long a server takes to answer. The mean is that of the last few answers; the quickest one is about
// the way to the server and back, which says nothing about the server's load. Where even the quickest one took longer
// than kFarthest, the server has been busy all the time: no way is that long.
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
  double mean() const { return mean_; }  // seconds; 0 before the first answer
  // What the server's load costs.
  double beyond_quickest() const { return std::max(mean_ - std::min(quickest_, kFarthest), 0.0); }
  double quickest() const { return quickest_; }  // infinite before the first answer

 private:
  static constexpr double kFarthest = 0.25;  // seconds
  double mean_ = 0, quickest_ = std::numeric_limits<double>::infinity();
};

}  // namespace tw
