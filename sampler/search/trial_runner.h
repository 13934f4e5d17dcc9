// TrialRunner: builds, measures and stores the trials that the search proposed, on a thread of its own while the search
// goes on. BatchRunner does it on this machine, one batch at a time; FleetRunner lets the machines of a fleet do it,
// with several batches in flight. Used by tune.cc.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dsl/base/clock.h"
#include "sampler/search/builds_ahead.h"
#include "sampler/search/flight_plan.h"
#include "sampler/search/task_state.h"
#include "sampler/search/trial.h"

namespace tw {

// One trial on its way: made by the search, built and measured behind it.
struct Trial {
  Candidate candidate;
  bool is_baseline = false;     // the untuned program
  bool is_constructed = false;  // the first candidate, chosen without any measurement
  bool stored = false;
  Record record;
};

// What is made of a trial before it is measured.
struct BuiltTrial {
  BuiltKernel built;
  BuildTimes times;
  std::string trace;    // the whole one, as text
  Hash128 object = {};  // of its code: object_hash
};

struct Batch {
  int task = -1;
  i64 generation = 0;
  std::vector<Trial> trials;
  std::shared_ptr<BuildsAhead<BuiltTrial>>
      builds;  // begun by TrialRunner::begin_builds; ends before its task's space does
  // Of what take_ended() gives:
  bool is_last = true;  // nothing of it is in flight any more
  std::string problem;  // why its task cannot be tuned; "" = it can
};

// What take_ended() waits for.
enum class Await : u8 { Nothing, Some, Batch };

// What a runner gets of its run, which outlives it.
struct RunnerParts {
  const TuneOptions& options;
  std::function<bool()> must_stop;  // asked before each trial
  Database& database;
  TuneObserver& observer;
  TuneProfile& profile;
};

class TrialRunner {
 public:
  explicit TrialRunner(const RunnerParts& with)
      : options_(with.options), database_(with.database), observer_(with.observer), profile_(with.profile) {}
  virtual ~TrialRunner() = default;
  // What the times of a task are taken on (Record::host); it is asked for before anything else of the task.
  virtual std::string host_of(const TuneTask& task) = 0;
  // Begins to compile a batch, behind the batch before it. It may do so while that one is measured: on the thread that
  // searches. Where kernels are not compiled beside the search, measuring does it.
  virtual void begin_builds(Batch& batch, const TaskState& state) = 0;
  // Begins to measure a batch. Each of its trials that could be tried is `stored` when it has ended, its record filled
  // in. `progress` is that of all tasks, for the observer.
  virtual void start(Batch batch, TaskState& state, std::vector<TaskProgress> progress) = 0;
  // What has ended since the last call: whole batches, and parts of others. Waits until there is something, or a batch
  // has no more trials in flight; nothing is waited for where nothing is in flight.
  virtual std::vector<Batch> take_ended(Await await) = 0;
  // Who measures for this tuner now.
  virtual MeasuringCapacity capacity() { return {}; }
  // Seconds, as those who measure count them.
  virtual double now() const { return seconds_now(); }
  // Ends what is held for the task between its batches.
  virtual void close(TaskState& state) = 0;

  // Records of other tuners that were seen since the last call. To be asked for behind take_ended().
  virtual std::vector<Record> take_others() = 0;
  // Why nothing can be measured or stored any more: of the database, the worker or the fleet.
  virtual std::string machine_error() { return machine_error_; }

 protected:
  // Records name the workload by its hash. False: it cannot be stored, and `problem` says why.
  bool store_workload(TaskState& state, std::string& problem);
  // All of its record that is known before it is built.
  void fill_record(const TaskState& state, i64 generation, Trial& trial);
  void store(Trial& trial);
  // Tells the observer of a trial that is stored.
  void observe(const Batch& batch, const Trial& trial);

  const TuneOptions& options_;
  Database& database_;
  TuneObserver& observer_;
  TuneProfile& profile_;
  std::vector<TaskProgress> progress_;
  std::string machine_error_;
};

using MakeRunner = std::function<std::unique_ptr<TrialRunner>(const RunnerParts&)>;

// tune() with another runner in place of a measurer.
TuneResult tune_with(const std::vector<TuneTask>& tasks, const rules::Library& library, const TuneOptions& options,
                     Database& database, const MakeRunner& make, TuneObserver& observer, const std::atomic<bool>& stop);

}  // namespace tw
