#include "sampler/search/batch_runner.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "dsl/analysis/points.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/measure/machine_memory.h"
#include "sampler/search/measure_trial.h"
#include "sampler/search/task_memory.h"
#include "sampler/space/parallel_for.h"

namespace tw {
namespace {

bool is_same_code(const TaskState& state, const Hash128& object, Record& record) {
  auto known = state.objects.find(object);
  if (known != state.objects.end()) set_same_code(record, known->second);
  return known != state.objects.end();
}

}  // namespace

void BatchRunner::start(Batch batch, TaskState& state, std::vector<TaskProgress> progress) {
  TW_CHECK(!measuring_.valid(), "a batch is measured already");
  batch_ = std::move(batch);
  progress_ = std::move(progress);
  measuring_ = start_beside(how_.beside_the_search, [this, &state] { run(batch_, state); });
}

std::vector<Batch> BatchRunner::take_ended(Await await) {
  std::vector<Batch> ended;
  if (await == Await::Nothing || !measuring_.valid()) return ended;
  measuring_.get();
  ended.push_back(std::exchange(batch_, {}));
  return ended;
}

void BatchRunner::run(Batch& batch, TaskState& state) {
  best_in_batch_ = 0;
  is_order_turned_ = false;
  best_known_ = nullptr;
  bool is_all_known = std::ranges::all_of(batch.trials, [&](const Trial& t) { return known_result(state, t); });
  if (is_all_known || options_.replay_measurements) {
    const Record unknown{.status = Record::not_recorded};
    for (Trial& trial : batch.trials) {
      if (must_stop_()) return;
      const Record* known = known_result(state, trial);
      take_known_result(state, batch, trial, known ? *known : unknown);
    }
    return;
  }
  if (store_workload(state, batch.problem) && start_worker_task(state, batch.problem)) {
    if (!batch.builds) begin_builds(batch, state);
    if (!how_.beside_the_search) batch.builds->finish(must_stop_);
    measure_all(batch, state);
    store_measured(state, batch);
  }
  if (batch.builds) batch.builds->end();
}

void BatchRunner::measure_all(Batch& batch, TaskState& state) {
  std::vector<std::size_t> order(batch.trials.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!machine_error_.empty() || must_stop_()) return;
    if (std::exchange(is_order_turned_, false))
      std::reverse(order.begin() + static_cast<std::ptrdiff_t>(i), order.end());
    Trial& trial = batch.trials[order[i]];
    if (const Record* known = known_result(state, trial)) {
      store_measured(state, batch);
      take_known_result(state, batch, trial, *known);
      continue;
    }
    if (others_.has_measured(trial.candidate.program)) continue;
    BuiltTrial made = batch.builds->take(order[i]);
    profile_.lower += made.times.lower_seconds;
    profile_.compile += made.times.compile_seconds;
    if (is_incumbent_old_) make_incumbent(state);
    run_trial(state, batch, trial, made);
  }
}

std::string BatchRunner::host_of(const TuneTask& task) {
  auto [at, is_new] = hosts_.try_emplace({to_string(task.target), task.timing});
  if (is_new) at->second = measuring_host(task.target, worker_options(task.target).device, task.timing);
  return at->second;
}

// ---- the task's worker and incumbent

bool BatchRunner::start_worker_task(TaskState& state, std::string& problem) {
  const TuneTask& task = *state.task;
  if (state.worker_task >= 0) {
    auto found = std::find_if(open_.begin(), open_.end(), [&](const OpenTask& open) { return open.state == &state; });
    std::rotate(found, found + 1, open_.end());
    return true;
  }
  double bytes = memory_of(task.program.program, task.target).host;
  close_until_there_is_room(bytes);
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(task.target));
  if (!compiler) {
    problem = to_string(compiler.rejected());
    return false;
  }
  double begin = seconds_now();
  auto start_now = [&] {
    return begin_judged_task(*measurer_, task.program.program, task.target, *compiler, options_.seed, must_stop_,
                             /*many_kernels=*/true);
  };
  TaskStart start = start_now();
  if (start.status == MeasureStatus::OutOfMemory && !open_.empty()) {  // the worker has less than the machine
    while (!open_.empty()) close(*open_[0].state);
    start = start_now();
  }
  profile_.reference += seconds_now() - begin;
  if (start.task < 0 && !start.was_stopped) problem = start.error;
  state.worker_task = start.task;
  if (start.task >= 0) open_.push_back({&state, bytes});
  return start.task >= 0 && restore_incumbent(state, *compiler);
}

void BatchRunner::close(TaskState& state) {
  if (state.worker_task < 0) return;
  measurer_->end_task(state.worker_task);
  state.worker_task = -1;
  std::erase_if(open_, [&](const OpenTask& open) { return open.state == &state; });
}

// Closes tasks, the least recently measured first, until another has room within the limit and in the machine. A closed
// task is begun again with its next batch.
void BatchRunner::close_until_there_is_room(double bytes) {
  double taken = 0;
  for (const OpenTask& open : open_) taken += open.bytes;
  i64 free = options_.limits.free_bytes ? options_.limits.free_bytes() : free_memory_bytes();
  double room = std::min(static_cast<double>(options_.limits.open_bytes), taken + static_cast<double>(free));
  while (taken + bytes > room && !open_.empty()) {
    taken -= open_[0].bytes;
    close(*open_[0].state);
  }
}

// After a resume the incumbent is compiled again from its record.
bool BatchRunner::restore_incumbent(TaskState& state, LlvmCompiler& compiler) {
  if (!state.incumbent.code.empty()) return true;
  std::vector<Candidate> best = state.elites(1);
  if (best.empty()) return true;
  CandidateBuilder builder(state.space);
  Result<Program> program = builder.build(best[0], nullptr);
  if (!program) return true;
  BuiltKernel built = loadable(build_kernel(*program, state.task->target, compiler), state.task->target);
  if (built.kernel) state.incumbent = std::move(*built.kernel);
  return true;
}

// ---- building

namespace {

BuiltTrial build_trial(const TaskState& state, const Trial& trial, LlvmCompiler& compiler) {
  BuiltTrial made;
  const Target& target = state.task->target;
  if (trial.is_baseline) {
    made.built = build_kernel(state.space.base, target, compiler, &made.times);
  } else {
    // The search has built it, but postprocessors of plugins may do now what they did not then.
    Result<Trace> trace = full_trace(state.space, trial.candidate);
    if (!trace) return {.built = {{}, to_string(trace.rejected())}};
    made.trace = trace->print(0);
    CandidateBuilder builder(state.space);
    Candidate copy = trial.candidate;
    Result<Program> program = builder.build(copy, nullptr);
    if (!program) return {.built = {{}, to_string(program.rejected())}, .trace = std::move(made.trace)};
    made.built = build_kernel(*program, target, compiler, &made.times);
  }
  if (made.built.kernel) made.object = object_hash(*made.built.kernel);
  double begin = seconds_now();
  made.built = loadable(std::move(made.built), target);
  made.times.compile_seconds += seconds_now() - begin;
  return made;
}

}  // namespace

// Trials stay where they are when their batch is moved.
void BatchRunner::begin_builds(Batch& batch, const TaskState& state) {
  if (options_.replay_measurements) return;
  auto compilers =
      std::make_shared<std::vector<std::optional<LlvmCompiler>>>(static_cast<std::size_t>(std::max(1, how_.threads)));
  auto is_known = [this, &state](const Trial& trial) { return known_result(state, trial) != nullptr; };
  auto build = [&state, trials = batch.trials.data(), compilers, is_known](std::size_t item, int thread) {
    std::optional<LlvmCompiler>& compiler = (*compilers)[static_cast<std::size_t>(thread)];
    if (!compiler) {
      Result<LlvmCompiler> made = LlvmCompiler::create(codegen_target(state.task->target));
      if (!made) return BuiltTrial{{{}, to_string(made.rejected())}, {}, {}};
      compiler.emplace(std::move(*made));
    }
    return is_known(trials[item]) ? BuiltTrial() : build_trial(state, trials[item], *compiler);
  };
  last_builds_ =
      std::make_shared<BuildsAhead<BuiltTrial>>(batch.trials.size(), how_.threads, std::move(build), last_builds_);
  batch.builds = last_builds_;
}

// ---- results that are known

// From the database (--replay-measurements), or from the function TuneOptions::known.
const Record* BatchRunner::known_result(const TaskState& state, const Trial& trial) const {
  auto recorded = state.recorded.find(trial.candidate.program);
  if (recorded != state.recorded.end()) return &recorded->second;
  return options_.known ? options_.known(*state.task, trial.candidate.program) : nullptr;
}

// It is not stored: whoever knows it has it.
void BatchRunner::take_known_result(const TaskState& state, const Batch& batch, Trial& trial, const Record& known) {
  fill_record(state, batch.generation, trial);
  trial.record.id = known.id, trial.record.status = known.status, trial.record.error = known.error;
  trial.record.seconds = known.seconds, trial.record.cold = known.cold;
  if (!trial.is_baseline) {  // which is known by having no trace
    if (Result<Trace> trace = full_trace(state.space, trial.candidate)) trial.record.trace = trace->print(0);
  }
  trial.stored = true;
  if (known.ok() && !trial.is_baseline && known.seconds < best_so_far(state)) {
    best_in_batch_ = known.seconds;
    best_known_ = &trial;
    is_incumbent_old_ = true;
  }
  observe(batch, trial);
}

// The kernel that is the best by a known result, before others are timed in turn with it.
void BatchRunner::make_incumbent(TaskState& state) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(state.task->target));
  if (!compiler) return;
  state.incumbent = {};
  is_incumbent_old_ = false;
  if (!best_known_) {
    restore_incumbent(state, *compiler);
  } else if (BuiltTrial made = build_trial(state, *best_known_, *compiler); made.built.kernel) {
    state.incumbent = std::move(*made.built.kernel);
  }
}

// ---- measuring and storing

void BatchRunner::run_trial(TaskState& state, const Batch& batch, Trial& trial, BuiltTrial& made) {
  BuiltKernel& built = made.built;
  Record& record = trial.record;
  fill_record(state, batch.generation, trial);
  record.trace = std::move(made.trace);
  if (built.kernel) record.object = to_hex(made.object);
  bool is_code_of_last = measured_ && !record.object.empty() && measured_->record.object == record.object;
  if (is_code_of_last || !built.kernel || !how_.beside_the_search) store_measured(state, batch);
  // Where results come from elsewhere, what is known of a program must not depend on what was measured before it.
  if (built.kernel && !options_.known && is_same_code(state, made.object, record)) {
    store_measured(state, batch);
    store(trial);
    return;
  }
  MeasureResult measured{.status = MeasureStatus::BuildError, .message = built.problem};
  if (built.kernel) {
    measurer_->do_meanwhile([&] { store_measured(state, batch); });
    if (!measure(state, *built.kernel, trial.is_baseline, measured)) return;
  }
  set_result(record, measured);
  measured_ = &trial;
  // The untuned program is no incumbent: timing candidates in turn with it would take its time, not theirs.
  if (record.ok() && !trial.is_baseline && record.seconds < best_so_far(state)) {
    best_in_batch_ = record.seconds;
    state.incumbent = std::move(*built.kernel);
  }
}

// Stores the trial that was measured last.
void BatchRunner::store_measured(TaskState& state, const Batch& batch) {
  Trial* trial = std::exchange(measured_, nullptr);
  if (!trial) return;
  store(*trial);
  if (!trial->stored) return;
  note_object(state, trial->record);
  observe(batch, *trial);
  is_order_turned_ |= others_.look(database_, state, trial->record, machine_error_);
}

// False: it was stopped, or it cannot be measured any more, and machine_error_ says why.
bool BatchRunner::measure(TaskState& state, const Kernel& kernel, bool is_baseline, MeasureResult& measured) {
  double begin = seconds_now();
  MeasuredTask task{.worker_task = state.worker_task,
                    .points = points_of(state.task->program.program),
                    .target = state.task->target,
                    .timing = state.task->timing,
                    .incumbent = state.incumbent.code.empty() ? nullptr : &state.incumbent,
                    .least_flops = state.least_flops,
                    .best_seconds = best_so_far(state)};
  measured = measure_trial(*measurer_, task, kernel, is_baseline, profile_);
  profile_.measure += seconds_now() - begin;
  if (measured.was_stopped) return false;
  bool is_lost = measured.status == MeasureStatus::WorkerLost && !measured.was_tried;
  if (is_lost) machine_error_ = cat("kernels cannot be measured any more: ", measured.message);
  return !is_lost;
}

double BatchRunner::best_so_far(const TaskState& state) const {
  double best = state.progress.best_seconds > 0 ? state.progress.best_seconds : std::numeric_limits<double>::infinity();
  return best_in_batch_ > 0 ? std::min(best, best_in_batch_) : best;
}

}  // namespace tw
