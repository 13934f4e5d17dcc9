// FleetRunner: has the trials that the search proposed measured by the machines of a fleet, through the queue of a
// database. Only text travels: each machine replays the traces and compiles them itself. Used by tune.cc.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/fleet/tuner_link.h"
#include "sampler/search/trial_runner.h"

namespace tw {

class FleetRunner final : public TrialRunner {
 public:
  FleetRunner(const TuneOptions& options, TunerLink& fleet, std::function<bool()> must_stop, Database& database,
              TuneObserver& observer, TuneProfile& profile);

  // Waits for a machine that measures for the target.
  std::string host_of(const TuneTask& task) override;
  void begin_builds(Batch&, const TaskState&) override {}
  void run(Batch& batch, TaskState& state, std::vector<TaskProgress> progress) override;
  void close(TaskState&) override {}
  std::vector<Record> take_others() override { return {}; }

 private:
  bool prepare(Batch& batch, TaskState& state, Trial& trial, QueuedTrial& queued);
  DatabaseResult<Record> stored(i64 record);
  void take(const Batch& batch, TaskState& state, Trial& trial, const TrialOutcome& outcome);

  TunerLink& fleet_;
  Waiting waiting_;
  std::map<std::string, std::string> faults_;  // of the batch: the first one of each kind
};

// tune() with the machines of a fleet in place of a measurer. The least time that a kernel may take is not known:
// options may say it (TuneOptions::bound).
TuneResult tune_on_fleet(const std::vector<TuneTask>& tasks, const rules::Library& library, const TuneOptions& options,
                         Database& database, TunerLink& fleet, TuneObserver& observer, const std::atomic<bool>& stop);

}  // namespace tw
