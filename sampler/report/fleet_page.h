// The page of a fleet: its machines, its queue, what failed, the curve of each task. `tracewright fleet` fills a
// FleetView again and again and prints it as JSON, or writes a page of it that loads itself again.
#pragma once
#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "runtime/fleet/trial_queue.h"
#include "sampler/report/report.h"

namespace tw {

// Counts at one moment.
struct FleetSample {
  i64 at = 0;        // milliseconds since 1970, UTC
  i64 measured = 0;  // FleetStatus::measured
  i64 queued = 0, leased = 0;
  i64 machines = 0;  // that are not gone
};
FleetSample sample_of(const FleetStatus& status);

// Samples from the first one to now; the longer that is, the fewer of them are kept.
class FleetHistory {
 public:
  static constexpr std::size_t kMostSamples = 600;
  void add(const FleetSample& sample);
  const std::vector<FleetSample>& samples() const { return samples_; }

 private:
  std::vector<FleetSample> samples_;
  i64 step_ = 1, seen_ = 0;  // of so many samples one is kept, and the latest one
};

// What a page holds at most, so that nobody who may write to the database makes it grow without end.
struct FleetLimits {
  std::size_t machines = 500, tuners = 200, failures = 500;
  std::size_t targets_of_a_machine = 16, tasks_of_a_tuner = 100;
  std::size_t name_bytes = 200, message_bytes = 500;
};

struct FleetView {
  std::string address;  // of the database
  FleetStatus status;
  FleetHistory history;
  Report curves;               // of tasks; nothing else of it is shown
  double refresh_seconds = 0;  // until the page is written again; 0 = this is the last one
  std::string problem;         // why the rest is old; "" if it is not
};

// The machines, tuners, faults and failures at the moment `at`, milliseconds since 1970.
boost::json::object to_json(const FleetStatus& status, i64 at);
// The machines that measure most come first, and those that are gone last.
std::string fleet_page(const FleetView& view, const FleetLimits& limits = {});

}  // namespace tw
