// LifeSigns: which heartbeats a machine may leave out. The statement that ends a lease marks the machine as alive, too
// (queue_sql.h), so that a heartbeat which prolongs no lease would only say this again; with a thousand machines those
// are hundreds of statements a second. Used by trial_queue.h, which notes, and by whoever beats: the measuring machines
// (sampler/fleet) and the simulated ones (bench/fleet). May be used by several threads at once.
#pragma once
#include <algorithm>
#include <limits>
#include <map>
#include <mutex>

#include "dsl/base/arena.h"
#include "runtime/fleet/queue_times.h"

namespace tw {

class LifeSigns {
 public:
  // Times are seconds_now() when a call began, which is not later than what the server notes.
  // `end`: when the lease runs out unless it is prolonged.
  void note_leased(i64 lease, double end) {
    std::lock_guard lock(mutex_);
    ends_[lease] = end;
  }
  // A lease has ended, whatever became of its result.
  void note_ended(i64 lease) {
    std::lock_guard lock(mutex_);
    ends_.erase(lease);
  }
  // A result was accepted.
  void note_written(double began) {
    std::lock_guard lock(mutex_);
    written_ = std::max(written_, began);
  }
  // All leases have ended.
  void forget_leases() {
    std::lock_guard lock(mutex_);
    ends_.clear();
  }

  // To be asked for each heartbeat: true if it may be left out.
  //
  // A lease that would end in more than kProlongedSeconds had nobody prolonged it has so much left, and so has each one
  // behind a heartbeat. So none has less than kProlongedSeconds - kHeartbeatSeconds left when the next one is due,
  // whether this one is left out or not: as long may a heartbeat be late. Others know of a machine that it lived
  // kHeartbeatSeconds ago when one is left out, hence twice as long ago at most, of kLeaseSeconds. Rates and losses are
  // told by heartbeats alone: they are at most kMostLeftOut + 1 times as old.
  bool leave_out(double now) {
    constexpr int kMostLeftOut = 2;  // one behind the other
    std::lock_guard lock(mutex_);
    std::erase_if(ends_, [&](const auto& lease) { return now - lease.second > kLongestLeaseSeconds; });
    const bool are_long =
        std::ranges::all_of(ends_, [&](const auto& lease) { return lease.second - now > kProlongedSeconds; });
    const bool is_left_out = are_long && now - written_ < kHeartbeatSeconds && left_out_ < kMostLeftOut;
    left_out_ = is_left_out ? left_out_ + 1 : 0;
    return is_left_out;
  }

 private:
  std::mutex mutex_;
  std::map<i64, double> ends_;  // of leases
  double written_ = -std::numeric_limits<double>::infinity();
  int left_out_ = 0;  // one behind the other
};

}  // namespace tw
