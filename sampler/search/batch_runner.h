// BatchRunner: builds, measures and stores the trials that the search proposed, one batch at a time, on a thread of its
// own while the search goes on. Used by tune.cc.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sampler/search/builds_ahead.h"
#include "sampler/search/other_tuners.h"
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
      builds;  // begun by BatchRunner::begin_builds; ends before its task's space does
};

// How a run measures, beside its TuneOptions.
struct BatchOptions {
  bool beside_the_search = false;   // kernels are compiled, and trials stored, while others are measured; false where
                                    // measuring needs all cores
  int threads = 1;                  // that compile
  std::function<bool()> must_stop;  // asked before each trial
};

class BatchRunner {
 public:
  // `measurer` may be null if options.replay_measurements is set.
  BatchRunner(const TuneOptions& options, BatchOptions how, Database& database, Measurer* measurer,
              TuneObserver& observer, TuneProfile& profile)
      : options_(options),
        how_(std::move(how)),
        database_(database),
        measurer_(measurer),
        observer_(observer),
        profile_(profile) {}

  // Begins to compile a batch, behind the batch before it. It may do so while that one is measured: on the thread that
  // searches. Where kernels are not compiled beside the search, run() does it.
  void begin_builds(Batch& batch, const TaskState& state);

  // Each trial that could be tried is `stored` afterwards, its record filled in. Touches the batch and, of `state`, the
  // handle of its worker, its incumbent and the object code it knows. `progress` is that of all tasks, for the
  // observer.
  void run(Batch& batch, TaskState& state, std::vector<TaskProgress> progress);

  // Ends the task in the worker, if it is open there.
  void close(TaskState& state);

  // What follows is read when no batch runs.
  // Why the task of the last batch cannot be tuned; empty = it can. Forgotten when taken.
  std::string take_task_problem() { return std::exchange(task_problem_, {}); }
  // Why nothing can be measured or stored any more: of the database or the worker.
  const std::string& machine_error() const { return machine_error_; }
  // Records of other tuners that were seen since the last call.
  std::vector<Record> take_others() { return others_.take(); }

 private:
  bool store_workload(TaskState& state);
  bool start_worker_task(TaskState& state);
  void close_until_there_is_room(double bytes);
  bool restore_incumbent(TaskState& state, LlvmCompiler& compiler);
  void measure_all(Batch& batch, TaskState& state);
  void run_trial(TaskState& state, const Batch& batch, Trial& trial, BuiltTrial& made);
  bool measure(TaskState& state, const Kernel& kernel, bool is_baseline, MeasureResult& measured);
  bool may_be_best(const TaskState& state, const MeasureResult& measured, bool is_baseline) const;
  void confirm(const TaskState& state, const Kernel& kernel, MeasureOptions options, MeasureResult& measured);
  MeasureResult measure_kernel(const TaskState& state, const Kernel& kernel, const MeasureOptions& options);
  const Record* known_result(const TaskState& state, const Trial& trial) const;
  void take_known_result(const TaskState& state, const Batch& batch, Trial& trial, const Record& known);
  void make_incumbent(TaskState& state);
  void fill_record(const TaskState& state, i64 generation, Trial& trial);
  void store_measured(TaskState& state, const Batch& batch);
  void store(Trial& trial);
  void observe(const Batch& batch, const Trial& trial);
  double best_so_far(const TaskState& state) const;

  const TuneOptions& options_;
  BatchOptions how_;
  Database& database_;
  Measurer* measurer_;
  TuneObserver& observer_;
  TuneProfile& profile_;
  std::shared_ptr<BuildsAhead<BuiltTrial>> last_builds_;
  struct OpenTask {
    TaskState* state;
    double bytes;
  };
  std::vector<OpenTask> open_;  // in the worker, the latest measured last
  OtherTuners others_;
  std::vector<TaskProgress> progress_;
  double best_in_batch_ = 0;           // seconds; 0 = none
  const Trial* best_known_ = nullptr;  // of the batch, if it is the best of all: its kernel is not built yet
  bool is_incumbent_old_ = false;      // a known result is better
  Trial* measured_ = nullptr;          // but not stored: that is done while the next one is measured
  bool is_order_turned_ = false;       // of what is left of the batch: another tuner proposes the same
  std::string task_problem_, machine_error_;
};

}  // namespace tw
