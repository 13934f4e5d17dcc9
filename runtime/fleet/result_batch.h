// ResultBatch: the results of a machine that wait until they are written, and when that is. A server that is quick gets
// each one at once. One that is slow gets several together: each statement that one of a thousand sessions sends costs
// it more than what the statement does, for it finds its session's memory cold. Used by the measuring machines
// (sampler/fleet) and the simulated ones (bench/fleet).
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/fleet/answer_time.h"

namespace tw {

inline constexpr double kLongestHeldSeconds = 4;  // no result waits longer, see is_overdue()

template <class Result>
class ResultBatch {
 public:
  // `now`: seconds_now(), as below.
  void add(Result result, double now) {
    if (results_.empty()) oldest_ = now;
    results_.push_back(std::move(result));
  }
  const std::vector<Result>& results() const { return results_; }
  bool empty() const { return results_.empty(); }

  // Shall the results be written now? The next chance comes in `next` seconds; 0 = that is not known. Whoever idles,
  // ends a lease or gives trials back asks nobody and writes.
  bool is_due(double now, double next) const {
    constexpr double kAnswers = 8;  // a server that is just not quick: a result waits for 8 of its answers
    if (empty()) return false;
    if (is_quick() || next <= 0) return true;
    return now - oldest_ + next > std::min(kAnswers * answer() * answer() / kQuick, kLongestHeldSeconds);
  }
  // Trials to lease together where a quick server gives `usual`: from a slow one more, less often.
  int lease_size(int usual) const { return is_quick() ? usual : answer() < kVerySlow ? 2 * usual : 4 * usual; }
  // Has the oldest result waited for kLongestHeldSeconds? Then it is written, whatever else is going on.
  bool is_overdue(double now) const { return !empty() && overdue_in(now) <= 0; }
  // Seconds until the oldest result is overdue.
  double overdue_in(double now) const { return oldest_ + kLongestHeldSeconds - now; }

  // Returns the results, which have been written. `seconds`: how long the server took to answer.
  std::vector<Result> take_written(double seconds) {
    answers_.note(seconds);
    return std::exchange(results_, {});
  }
  // `seconds`: how long the server took for a lease.
  void note_lease(double seconds) { leases_.note(seconds); }
  // Forgets the results: the machine is lost.
  void drop() { results_.clear(); }

 private:
  static constexpr double kQuick = 0.025;    // seconds; the tuner shall know of a result within 0.05
  static constexpr double kVerySlow = 0.25;  // seconds
  // Seconds that the server's work adds to an answer: a machine that is far away keeps no result back for that.
  double answer() const {
    constexpr double kOfLease = 0.25;  // machines wait for their turn to lease, also where the server has time
    return std::max(answers_.mean(), kOfLease * leases_.mean()) - std::min(answers_.quickest(), leases_.quickest());
  }
  bool is_quick() const { return answer() < kQuick; }

  std::vector<Result> results_;
  double oldest_ = 0;
  AnswerTime answers_, leases_;
};

}  // namespace tw
