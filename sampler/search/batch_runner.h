// BatchRunner: builds, measures and stores the trials that the search proposed on this machine. Used by tune.cc.
#pragma once
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sampler/search/other_tuners.h"
#include "sampler/search/task_state.h"
#include "sampler/search/trial_runner.h"

namespace tw {

// How a run measures, beside its TuneOptions.
struct BatchOptions {
  bool beside_the_search = false;  // kernels are compiled, and trials stored, while others are measured; false where
                                   // measuring needs all cores
  int threads = 1;                 // that compile
};

class BatchRunner final : public TrialRunner {
 public:
  // `measurer` may be null if options.replay_measurements is set.
  BatchRunner(const RunnerParts& with, BatchOptions how, Measurer* measurer)
      : TrialRunner(with), how_(how), must_stop_(with.must_stop), measurer_(measurer) {}

  void begin_builds(Batch& batch, const TaskState& state) override;
  // One batch at a time: the one before was taken. Until it is taken, it touches of `state` the handle of its worker,
  // its incumbent and the object code it knows.
  void start(Batch batch, TaskState& state, std::vector<TaskProgress> progress) override;
  std::vector<Batch> take_ended(Await await) override;
  void close(TaskState& state) override;
  std::string host_of(const TuneTask& task) override;
  std::vector<Record> take_others() override { return others_.take(); }

 private:
  void run(Batch& batch, TaskState& state);
  bool start_worker_task(TaskState& state, std::string& problem);
  void close_until_there_is_room(double bytes);
  bool restore_incumbent(TaskState& state, LlvmCompiler& compiler);
  void measure_all(Batch& batch, TaskState& state);
  void run_trial(TaskState& state, const Batch& batch, Trial& trial, BuiltTrial& made);
  bool measure(TaskState& state, const Kernel& kernel, bool is_baseline, MeasureResult& measured);
  const Record* known_result(const TaskState& state, const Trial& trial) const;
  void take_known_result(const TaskState& state, const Batch& batch, Trial& trial, const Record& known);
  void make_incumbent(TaskState& state);
  void store_measured(TaskState& state, const Batch& batch);
  double best_so_far(const TaskState& state) const;

  BatchOptions how_;
  std::function<bool()> must_stop_;
  Measurer* measurer_;
  std::shared_ptr<BuildsAhead<BuiltTrial>> last_builds_;
  struct OpenTask {
    TaskState* state;
    double bytes;
  };
  std::vector<OpenTask> open_;                                   // in the worker, the latest measured last
  std::map<std::pair<std::string, Timing>, std::string> hosts_;  // by target
  OtherTuners others_;
  double best_in_batch_ = 0;           // seconds; 0 = none
  const Trial* best_known_ = nullptr;  // of the batch, if it is the best of all: its kernel is not built yet
  bool is_incumbent_old_ = false;      // a known result is better
  Trial* measured_ = nullptr;          // but not stored: that is done while the next one is measured
  Batch batch_;                        // that is measured
  std::future<void> measuring_;        // it
  bool is_order_turned_ = false;       // of what is left of the batch: another tuner proposes the same
};

}  // namespace tw
