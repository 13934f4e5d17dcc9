// TrialRunner: builds, measures and stores the trials that the search proposed, one batch at a time, on a thread of its
// own while the search goes on. BatchRunner does it on this machine, FleetRunner lets the machines of a fleet do it.
// Used by tune.cc.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sampler/search/builds_ahead.h"
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
};

class TrialRunner {
 public:
  TrialRunner(const TuneOptions& options, Database& database, TuneObserver& observer, TuneProfile& profile)
      : options_(options), database_(database), observer_(observer), profile_(profile) {}
  virtual ~TrialRunner() = default;
  // What the times of a task are taken on (Record::host); it is asked for before anything else of the task.
  virtual std::string host_of(const TuneTask& task) = 0;
  // Begins to compile a batch, behind the batch before it. It may do so while that one is measured: on the thread that
  // searches. Where kernels are not compiled beside the search, run() does it.
  virtual void begin_builds(Batch& batch, const TaskState& state) = 0;
  // Each trial that could be tried is `stored` afterwards, its record filled in. `progress` is that of all tasks, for
  // the observer.
  virtual void run(Batch& batch, TaskState& state, std::vector<TaskProgress> progress) = 0;
  // Ends what is held for the task between its batches.
  virtual void close(TaskState& state) = 0;

  // What follows is read when no batch runs.
  // Records of other tuners that were seen since the last call.
  virtual std::vector<Record> take_others() = 0;
  // Why the task of the last batch cannot be tuned; empty = it can. Forgotten when taken.
  std::string take_task_problem() { return std::exchange(task_problem_, {}); }
  // Why nothing can be measured or stored any more: of the database, the worker or the fleet.
  const std::string& machine_error() const { return machine_error_; }

 protected:
  // Records name the workload by its hash. False: it cannot be stored.
  bool store_workload(TaskState& state);
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
  std::string task_problem_, machine_error_;
};

}  // namespace tw
