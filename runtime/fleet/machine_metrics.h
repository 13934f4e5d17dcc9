// MachineMetrics: what a measuring machine has done since it began, in the text format of Prometheus (0.0.4). Filled by
// sampler/fleet, served by metrics_server.h.
#pragma once
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "dsl/ir/types.h"

namespace tw {

// All calls may come from any thread.
class MachineMetrics {
 public:
  // What every machine is asked for by its name in `tracewright fleet`.
  MachineMetrics(std::string name, std::string version);

  // The answer to the machine's request for trials: these are at hand now, and no others. It is busy until it gets
  // none.
  void add_leased(i64 trials);
  // A trial that ended with a record of this status ("ok", "crash", ...; kKnown: the record was there before), after
  // so many seconds.
  static constexpr std::string_view kKnown = "known";
  void add_trial(std::string_view status, double seconds);
  // A trial that ended with a fault of the queue.
  void add_fault(std::string_view kind);
  // A result that the queue did not take: its lease had ended, or had given a result already.
  void add_ignored(bool is_repeated);
  // Trials that it has no more.
  void add_given_back(i64 trials);
  // The database has taken a heartbeat. `lost`: leases of this machine that ran out since it announced itself.
  void set_heartbeat(i64 lost);
  // It has taken a result in place of one (life_signs.h).
  void set_heartbeat();
  // The machine announced itself once more: what it had lost before stays counted.
  void announced_again();
  void set_reconnections(i64 count);

  std::string text() const;

 private:
  static constexpr std::array<double, 13> kBounds = {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300};

  mutable std::mutex mutex_;
  const std::string name_, version_;
  const double started_;  // seconds since 1970, as all times that are told
  i64 leased_ = 0, at_hand_ = 0, given_back_ = 0, late_ = 0, repeated_ = 0, reconnections_ = 0;
  i64 lost_before_ = 0, lost_ = 0;
  double heartbeat_ = 0;
  std::map<std::string, i64, std::less<>> trials_ = {{"ok", 0}, {std::string(kKnown), 0}}, faults_;
  std::array<i64, kBounds.size() + 1> counts_ = {};  // of trials that took so long, the last without a bound
  double trial_seconds_ = 0;
  bool is_busy_ = false;
  double busy_seconds_ = 0, busy_since_ = 0;
};

}  // namespace tw
