#include "sampler/search/fleet_runner.h"

#include <chrono>
#include <thread>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"

namespace tw {

FleetRunner::FleetRunner(const TuneOptions& options, TunerLink& fleet, std::function<bool()> must_stop,
                         Database& database, TuneObserver& observer, TuneProfile& profile)
    : TrialRunner(options, database, observer, profile),
      fleet_(fleet),
      waiting_{.must_stop = std::move(must_stop),
               .say = [&observer](const std::string& text) { observer.on_message(text); }} {}

std::string FleetRunner::host_of(const TuneTask& task) {
  std::optional<MeasuredTarget> found = fleet_.machine_for(to_string(task.target), waiting_, task.machine);
  if (!found) return machine_error_ = fleet_.error(), "no machine";
  return task.timing == Timing::Cold ? cat(found->host, kColdCaches) : found->host;
}

void FleetRunner::run(Batch& batch, TaskState& state, std::vector<TaskProgress> progress) {
  progress_ = std::move(progress);
  faults_.clear();
  if (!store_workload(state)) return;
  std::vector<QueuedTrial> queued;
  std::vector<Trial*> trials;
  for (Trial& trial : batch.trials) {
    QueuedTrial next;
    if (!prepare(batch, state, trial, next)) continue;
    queued.push_back(std::move(next));
    trials.push_back(&trial);
  }
  if (!machine_error_.empty() || queued.empty()) return;
  std::size_t faults = 0;
  double begin = seconds_now();
  bool is_done = fleet_.measure(queued, waiting_, [&](std::size_t i, const TrialOutcome& outcome) {
    take(batch, state, *trials[i], outcome);
    faults += !outcome.fault.empty();
  });
  profile_.measure += seconds_now() - begin;
  if (!fleet_.error().empty()) machine_error_ = fleet_.error();
  for (const auto& [kind, text] : faults_) observer_.on_message(text);
  // The next batch would end like this one.
  if (is_done && faults == queued.size()) task_problem_ = cat("no trial could be measured: ", faults_.begin()->second);
}

// What is put into the queue. False: the trial has failed already.
bool FleetRunner::prepare(Batch& batch, TaskState& state, Trial& trial, QueuedTrial& queued) {
  fill_record(state, batch.generation, trial);
  // Postprocessors of plugins may do now what they did not in the search.
  Result<Trace> trace = trial.is_baseline ? Trace() : full_trace(state.space, trial.candidate);
  std::string problem = trace ? "" : to_string(trace.rejected());
  if (trace && !trial.is_baseline) trial.record.trace = trace->print(0);
  if (trial.record.trace.size() > kLongestTrace)
    problem = cat("a trace of ", trial.record.trace.size(), " bytes is too long for the queue");
  if (!problem.empty()) {
    set_result(trial.record, {.status = MeasureStatus::BuildError, .message = problem});
    store(trial);
    if (trial.stored) observe(batch, trial);
    return false;
  }
  const Record& record = trial.record;
  queued = {.workload = record.workload,
            .target = record.target,
            .program = record.program,
            .trace = record.trace,
            .task = record.task,
            .seed = record.seed,
            .generation = record.generation,
            .is_cold = state.task->timing == Timing::Cold,
            .wanted = state.task->machine,
            .incumbent = progress_.at(static_cast<std::size_t>(batch.task)).best_record};
  return true;
}

// A server that restarts has broken the database's connection, too.
DatabaseResult<Record> FleetRunner::stored(i64 record) {
  constexpr double kSeconds = 15;
  constexpr std::chrono::milliseconds kPause(500);
  double begin = seconds_now();
  for (;;) {
    DatabaseResult<Record> found = database_.record(record);
    if (found || waiting_.must_stop() || seconds_now() - begin > kSeconds) return found;
    std::this_thread::sleep_for(kPause);
  }
}

// A trial that ended with a fault is not stored: nothing is known of the candidate.
void FleetRunner::take(const Batch& batch, TaskState& state, Trial& trial, const TrialOutcome& outcome) {
  if (!outcome.fault.empty()) {
    faults_.try_emplace(outcome.fault,
                        cat(state.task->name, ": ", outcome.fault, " (", outcome.machine, "): ", outcome.message));
    return;
  }
  DatabaseResult<Record> record = stored(outcome.record);
  if (!record) {
    machine_error_ = record.error();
    return;
  }
  trial.record = std::move(*record);
  trial.stored = true;
  note_object(state, trial.record);
  observe(batch, trial);
}

}  // namespace tw
