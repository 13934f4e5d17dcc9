#include "sampler/search/trial_runner.h"

#include "dsl/base/clock.h"
#include "dsl/text/workload.h"

namespace tw {

// Not where the space is built: that is another thread, and a database belongs to one.
bool TrialRunner::store_workload(TaskState& state, std::string& problem) {
  if (state.is_stored) return true;
  DatabaseStatus stored = database_.add_workload(state.workload_key, workload_text(state.task->program.program));
  if (!stored) problem = stored.error();
  return state.is_stored = static_cast<bool>(stored);
}

void TrialRunner::fill_record(const TaskState& state, i64 generation, Trial& trial) {
  Record& record = trial.record;
  record.workload = state.workload_key;
  record.target = state.target_key;
  record.seed = options_.seed;
  record.generation = generation;
  record.task = state.task->name;
  record.program = to_hex(trial.candidate.program);
  record.version = TW_VERSION;
  record.host = state.host;
}

void TrialRunner::store(Trial& trial) {
  double begin = seconds_now();
  auto id = database_.add_record(trial.record);
  profile_.database += seconds_now() - begin;
  if (std::string notice = database_.take_notice(); !notice.empty()) observer_.on_message(notice);
  if (!id) {
    machine_error_ = id.error();
    return;
  }
  trial.record.id = *id;
  trial.stored = true;
}

// Progress as seen from outside while the batch runs: a copy, for the states belong to the searching thread.
void TrialRunner::observe(const Batch& batch, const Trial& trial) {
  if (!trial.record.is_trial()) return;
  TaskProgress& shown = progress_[static_cast<std::size_t>(batch.task)];
  ++shown.trials;
  shown.failed += !trial.record.ok();
  if (trial.record.ok() && (shown.best_seconds == 0 || trial.record.seconds < shown.best_seconds))
    shown.best_seconds = trial.record.seconds;
  if (trial.is_baseline && trial.record.ok()) shown.baseline_seconds = trial.record.seconds;
  observer_.on_trial(progress_, static_cast<std::size_t>(batch.task), trial.record);
}

}  // namespace tw
