// FleetRunner: has the trials that the search proposed measured by the machines of a fleet, through the queue of a
// database, many batches at a time. Only text travels: each machine replays the traces and compiles them itself. Used
// by tune.cc.
#pragma once
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/fleet/tuner_link.h"
#include "sampler/search/trial_runner.h"

namespace tw {

class FleetRunner final : public TrialRunner {
 public:
  FleetRunner(const RunnerParts& with, TunerLink& fleet);
  ~FleetRunner() override;

  // Waits for a machine that measures for the target.
  std::string host_of(const TuneTask& task) override;
  void begin_builds(Batch&, const TaskState&) override {}
  void start(Batch batch, TaskState& state, std::vector<TaskProgress> progress) override;
  std::vector<Batch> take_ended(Await await) override;
  void close(TaskState&) override {}
  std::vector<Record> take_others() override { return {}; }
  MeasuringCapacity capacity() override;
  std::string machine_error() override;

 private:
  // A batch in flight.
  struct Flying {
    Batch batch;
    TaskState* state = nullptr;
    std::vector<TaskProgress> progress = {};
    std::vector<QueuedTrial> queued = {};          // until they are put into the queue
    std::vector<std::size_t> places = {};          // theirs, in the batch
    std::vector<std::size_t> failed = {};          // these have failed already, and are only stored
    std::vector<std::size_t> ended = {};           // and not taken yet
    std::size_t left = 0;                          // trials that have not ended
    std::size_t faults = 0;                        // of those that have
    std::map<std::string, std::string> said = {};  // the first fault of each kind
  };
  struct Place {
    Flying* flying;
    std::size_t trial;
  };
  using Records = std::map<i64, Record>;

  // On the thread that searches.
  bool prepare(const Flying& flying, const TaskState& state, Trial& trial, QueuedTrial& queued);
  bool has(Await await) const;

  // On a thread of its own, beside the search.
  void work();
  void launch(Flying& flying);
  void show(const Flying& flying);
  void collect();
  void take(const std::map<i64, TrialOutcome>& outcomes);
  void take_one(Place place, const TrialOutcome& outcome, const Records& records);
  void end_all();
  void end(Place place);
  void fail(const std::string& why);

  TunerLink& fleet_;
  Waiting waiting_;
  std::map<i64, Place> places_;  // of trials in the queue, by their numbers

  // Guards what follows, machine_error_ and, of each Flying, what belongs to trials that have ended.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Flying> flying_;
  std::vector<Flying*> started_;  // to be put into the queue
  MeasuringCapacity capacity_;
  bool is_closed_ = false;
  int wake_ = -1;  // an event of the system that wakes the thread
  std::thread thread_;
};

// tune() with the machines of a fleet in place of a measurer. The least time that a kernel may take is not known:
// options may say it (TuneOptions::bound).
TuneResult tune_on_fleet(const std::vector<TuneTask>& tasks, const rules::Library& library, const TuneOptions& options,
                         Database& database, TunerLink& fleet, TuneObserver& observer, const std::atomic<bool>& stop);

}  // namespace tw
