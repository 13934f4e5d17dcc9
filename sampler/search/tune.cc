#include "sampler/search/tune.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>

#include "costmodel/accuracy.h"
#include "costmodel/make_model.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/text/workload.h"
#include "sampler/search/other_cores.h"
#include "sampler/search/other_tuners.h"
#include "sampler/search/parallel_for.h"
#include "sampler/search/task_scheduler.h"
#include "sampler/search/task_state.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// One trial on its way: made by the search, built and measured behind it.
struct Trial {
  Candidate candidate;
  bool is_baseline = false;
  Record record;
  bool stored = false;
  bool is_constructed = false;  // the first candidate, chosen without any measurement
  std::optional<BuiltKernel> built;  // ahead of its turn
};

struct Batch {
  int task = -1;
  i64 generation = 0;
  std::vector<Trial> trials;
};

class Tuner {
 public:
  Tuner(const std::vector<TuneTask>& tasks, const rules::Library& library, const TuneOptions& options, Database& database,
        Measurer* measurer, TuneObserver& observer, const std::atomic<bool>& stop)
      : tasks_(tasks), library_(library), options_(options), database_(database), measurer_(measurer), observer_(observer), stop_(stop),
        begin_(now()) {
    // Kernels with several threads are measured while nothing else runs; others leave a core to the search.
    int cores = usable_threads();
    overlapped_ = cores > 1 && std::all_of(tasks.begin(), tasks.end(), [](const TuneTask& t) { return t.target.threads == 1 && !is_device(t.target); });
    evolution_.threads = options.threads > 0 ? options.threads : overlapped_ ? cores - 1 : cores;
  }

  TuneResult run() {
    open_tasks();
    make_cost_model();
    // Round g is searched while the trials of round g - 1 are measured, so it knows the results up to round g - 2 only, however
    // fast anything is: the same seed and the same measurements give the same candidates.
    OtherCores affinity(overlapped_);
    Batch measuring;
    std::future<void> measured;
    // A batch may give fewer trials than it has candidates: then its task goes on after it.
    while (!finished() || measured.valid()) {
      if (finished()) {
        finish(measured, measuring);
        continue;
      }
      Batch next = search();
      if (measured.valid()) finish(measured, measuring);
      if (next.trials.empty() || must_stop()) continue;  // the last batch of the last task is still to be measured
      if (!states_[next.task].progress.problem.empty()) continue;  // given up while this batch was searched
      measuring = std::move(next);
      in_flight_ = true;
      shown_.clear();
      for (const TaskState& state : states_) shown_.push_back(state.progress);
      measured = start_beside(overlapped_, [this, &measuring] { measure(measuring); });
      train();
    }
    close_tasks();
    add_stats();
    result_.seconds = now() - begin_;
    result_.interrupted = stop_;
    for (const TaskState& state : states_) result_.tasks.push_back(state.progress);
    return result_;
  }

 private:
  // ---- begin and end

  void open_tasks() {
    double begin = now();
    states_.resize(tasks_.size());
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      open_task(states_[i], tasks_[i], library_, options_, database_, observer_, [this] { return must_stop(); });
      states_[i].known.feature_room = kFeatureRoom / tasks_.size();
      history_.push_back({tasks_[i].weight, states_[i].progress.problem.empty(), {}});
      if (!states_[i].progress.problem.empty()) give_up(i, states_[i].progress.problem);
      if (states_[i].progress.trials >= states_[i].progress.wanted) end_task(i);
    }
    if (database_.damaged() > 0) {
      observer_.on_message(cat(database_.damaged(), " damaged rows of ", database_.path(), " were left out; `tracewright db verify ",
                               database_.path(), "` says more"));
    }
    result_.profile.space = now() - begin;
  }

  void make_cost_model() {
    MadeModel made = make_model(options_.cost_model, feature_columns(), options_.seed);
    if (!made.note.empty()) observer_.on_message(made.note);
    model_ = std::move(made.model);
    dataset_.features.columns = feature_columns();
    for (std::size_t i = 0; i < states_.size(); ++i) {
      for (const Measured& measured : states_[i].history) add_to_dataset(static_cast<int>(i), measured.candidate, measured.seconds);
    }
    if (model_ && dataset_.size() >= kEnoughToLearn) model_->update(dataset_, Effort::Full), model_ready_ = true;
  }

  bool must_stop() const {
    return stop_ || !result_.error.empty() || (options_.seconds > 0 && now() - begin_ >= options_.seconds);
  }

  bool finished() const {
    return must_stop() || std::none_of(history_.begin(), history_.end(), [](const TaskHistory& task) { return task.alive; });
  }

  void end_task(std::size_t i) {
    history_[i].alive = false;
    states_[i].progress.done = true;
  }

  void give_up(std::size_t i, const std::string& why) {
    history_[i].alive = false;
    states_[i].progress.problem = why;
    observer_.on_message(cat(tasks_[i].name, ": ", why));
  }

  void close_tasks() {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      TaskState& state = states_[i];
      if (measurer_ && state.worker_task >= 0) measurer_->end_task(state.worker_task);
      if (state.progress.trials > 0 && state.progress.failed == state.progress.trials && state.progress.problem.empty()) {
        std::vector<std::string> kinds;
        for (const auto& [status, count] : state.failures) kinds.push_back(cat(count, " ", status));
        give_up(i, cat("every candidate failed (", join(kinds, ", "), "); the first one: ", state.example_failure));
      }
    }
  }

  void add_stats() {
    result_.candidates = stats_.candidates;
    result_.rejected = stats_.rejected;
    result_.repeats = stats_.repeats;
    result_.profile.draw = stats_.draw_seconds;
    result_.profile.replay = stats_.build.replay;
    result_.profile.postprocess = stats_.build.postprocess;
    result_.profile.hash = stats_.build.hash;
    result_.profile.draft = stats_.build.draft;
    result_.profile.features = stats_.build.features;
    result_.profile.model = stats_.model_seconds;
  }

  // ---- search

  Batch search() {
    int chosen = next_task(history_);
    if (chosen < 0) return {};
    TaskState& state = states_[chosen];
    double begin = now();
    Rng rng(options_.seed, static_cast<u64>(chosen), static_cast<u64>(state.rounds));
    Batch batch{chosen, state.rounds, {}};
    i64 left = state.progress.wanted - state.progress.trials - in_flight(chosen);
    HashSet taken = state.measured;
    if (measuring_task_ == chosen) taken.insert(measuring_programs_.begin(), measuring_programs_.end());
    if (state.rounds == 0 && state.progress.trials == 0) add_first_trials(state, rng, batch, taken);
    int count = static_cast<int>(std::min<i64>(kBatch, left) - static_cast<i64>(batch.trials.size()));
    if (count > 0) {
      std::vector<Candidate> proposed = evolve(state.space, state.elites(evolution_.population), taken,
                                               model_ready_ ? model_.get() : nullptr, count, rng, evolution_, state.known, stats_);
      for (Candidate& candidate : proposed) batch.trials.push_back({std::move(candidate), false, {}, false});
    }
    ++state.rounds;
    result_.search_seconds += now() - begin;
    if (batch.trials.empty()) {
      if (left <= 0) {
        if (in_flight(chosen) == 0) end_task(chosen);
        else history_[chosen].alive = false;
      } else if (in_flight(chosen) == 0) {
        observer_.on_message(cat(tasks_[chosen].name, ": the space holds no further candidate"));
        end_task(chosen);
      }
      return batch;
    }
    if (left <= static_cast<i64>(batch.trials.size())) history_[chosen].alive = false;
    measuring_task_ = chosen;
    measuring_programs_.clear();
    for (const Trial& trial : batch.trials) measuring_programs_.insert(trial.candidate.program);
    return batch;
  }

  // The untuned program, so that tuning can never make things worse, and the best draw of the draft model: what zero trials give.
  void add_first_trials(TaskState& state, const Rng& rng, Batch& batch, HashSet& taken) {
    Trial baseline;
    baseline.is_baseline = true;
    baseline.candidate.program = normalized_hash(state.space.base);
    taken.insert(baseline.candidate.program);
    batch.trials.push_back(std::move(baseline));
    std::optional<Candidate> first = construct(state.space, rng.fork(1), evolution_, state.known, stats_);
    if (!first || !taken.insert(first->program).second) return;
    batch.trials.push_back({std::move(*first), false, {}, false, true});
  }

  i64 in_flight(int task) const { return measuring_task_ == task && in_flight_ ? static_cast<i64>(measuring_programs_.size()) : 0; }

  // ---- measuring (on its own thread; touches the batch, its task's worker handle and incumbent, the database and the observer)

  void measure(Batch& batch) {
    TaskState& state = states_[batch.task];
    if (!options_.replay_measurements && !start_worker_task(state)) return;
    std::future<BuiltKernel> ahead;
    std::vector<Trial*> order;
    for (Trial& trial : batch.trials) order.push_back(&trial);
    // NVRTC takes a good part of a second a kernel, and measuring on a device leaves the processor idle.
    if (!options_.replay_measurements && state.task->target.kind == TargetKind::Cuda) build_all(state, batch);
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (stop_ || !machine_error_.empty()) return;
      if (options_.seconds > 0 && now() - begin_ >= options_.seconds) return;
      Trial& trial = *order[i];
      if (options_.replay_measurements) {
        replay_measurement(state, batch, trial);
      } else {
        BuiltKernel built = trial.built ? std::move(*trial.built) : ahead.valid() ? ahead.get() : build(state, trial);
        // The next kernel is compiled while this one is measured, unless that needs all cores.
        if (i + 1 < order.size() && !order[i + 1]->built) ahead = start_beside(overlapped_, [this, &state, &next = *order[i + 1]] { return build(state, next); });
        if (others_.has_measured(trial.candidate.program)) continue;
        run_trial(state, batch, trial, built);
      }
      if (!trial.stored) return;
      observe(batch, trial);
      if (options_.replay_measurements || !others_.look(database_, state, trial.record, machine_error_)) continue;
      if (i + 2 < order.size()) std::reverse(order.begin() + static_cast<std::ptrdiff_t>(i) + 2, order.end());
    }
  }

  bool compiler_for(const Target& target) {
    if (compiler_ && compiler_target_ == target) return true;
    Result<LlvmCompiler> made = LlvmCompiler::create(codegen_target(target));
    if (!made) {
      task_problem_ = to_string(made.rejected());
      return false;
    }
    compiler_ = std::make_unique<LlvmCompiler>(std::move(*made));
    compiler_target_ = target;
    return true;
  }

  bool start_worker_task(TaskState& state) {
    const TuneTask& task = *state.task;
    if (!compiler_for(task.target)) return false;
    if (state.worker_task >= 0) return true;
    BuiltKernel reference = build_reference(task.program.program, task.target, *compiler_);
    if (!reference.kernel) {
      task_problem_ = cat("the reference program cannot be compiled: ", reference.problem);
      return false;
    }
    TaskStart start = measurer_->begin_task(*reference.kernel, state.tolerance, options_.seed);
    if (start.task < 0) task_problem_ = cat("the reference program cannot be run: ", start.error);
    state.worker_task = start.task;
    return start.task >= 0 && restore_incumbent(state);
  }

  // After a resume the incumbent is compiled again from its record.
  bool restore_incumbent(TaskState& state) {
    if (!state.incumbent.code.empty()) return true;
    std::vector<Candidate> best = state.elites(1);
    if (best.empty()) return true;
    CandidateBuilder builder(state.space);
    Result<Program> program = builder.build(best[0], nullptr);
    if (!program) return true;
    BuiltKernel built = loadable(build_kernel(*program, state.task->target, *compiler_), state.task->target);
    if (built.kernel) state.incumbent = std::move(*built.kernel);
    return true;
  }

  void fill_record(const TaskState& state, i64 generation, Trial& trial) {
    Record& record = trial.record;
    record.workload = state.workload_key;
    record.target = state.target_key;
    record.seed = options_.seed;
    record.generation = generation;
    record.task = state.task->name;
    record.program = to_hex(trial.candidate.program);
    record.version = TW_VERSION;
    record.host = host_description();
    if (trial.is_baseline) return;
    Result<Trace> trace = full_trace(state.space, trial.candidate);
    TW_CHECK(trace, "a candidate that was built has no trace");
    record.trace = trace->print(0);
  }

  // Once more if the worker was lost: somebody may have killed it. A kernel that kills it twice is a failed one.
  MeasureResult measure_kernel(const TaskState& state, const Kernel& kernel, const MeasureOptions& options) {
    MeasureResult measured = measurer_->measure(state.worker_task, kernel, options);
    if (measured.status == MeasureStatus::WorkerLost) measured = measurer_->measure(state.worker_task, kernel, options);
    return measured;
  }

  // One at a time: the compiler is not shared between threads.
  BuiltKernel build(const TaskState& state, const Trial& trial) {
    BuildTimes times;
    BuiltKernel built = build(state, trial, times);
    note(times);
    return built;
  }

  void note(const BuildTimes& times) {
    result_.profile.lower += times.lower_seconds;
    result_.profile.compile += times.compile_seconds;
  }

  // All of a batch for a device: these need no compiler of ours, so several threads may.
  void build_all(const TaskState& state, Batch& batch) {
    std::vector<BuildTimes> times(batch.trials.size());
    parallel_for(static_cast<int>(times.size()), evolution_.threads, [&](int item, int) {
      auto i = static_cast<std::size_t>(item);
      batch.trials[i].built = build(state, batch.trials[i], times[i]);
    });
    for (const BuildTimes& one : times) note(one);
  }

  BuiltKernel build(const TaskState& state, const Trial& trial, BuildTimes& times) {
    BuiltKernel built;
    if (trial.is_baseline) {
      built = build_kernel(state.space.base, state.task->target, *compiler_, &times);
    } else {
      CandidateBuilder builder(state.space);
      Candidate copy = trial.candidate;
      Result<Program> program = builder.build(copy, nullptr);
      TW_CHECK(program, "a candidate that was built cannot be built again");
      built = build_kernel(*program, state.task->target, *compiler_, &times);
    }
    double begin = now();
    built = loadable(std::move(built), state.task->target);
    times.compile_seconds += now() - begin;
    return built;
  }

  void run_trial(TaskState& state, const Batch& batch, Trial& trial, BuiltKernel& built) {
    fill_record(state, batch.generation, trial);
    if (built.kernel && is_same_code(state, *built.kernel, trial.record)) return store(trial);
    MeasureResult measured;
    if (built.kernel) {
      double begin = now();
      MeasureOptions options{.incumbent = state.incumbent.code.empty() ? nullptr : &state.incumbent, .threads = state.task->target.threads,
                             .least_flops = state.least_flops, .pairs = 6, .max_pairs = 16, .budget_seconds = 0.04};
      if (trial.is_baseline) {  // may take seconds a call: one says enough
        options.timeout_seconds = 120;
        options.single_call_seconds = 0.25;
        options.first_pairs = options.pairs = options.max_pairs = 1;
      }
      measured = measure_kernel(state, *built.kernel, options);
      // Once more where others disturbed it: a thread that waits for a core makes the first call with new data look slow, too.
      if (measured.status == MeasureStatus::Noisy || measured.status == MeasureStatus::Cheat) measured = measure_kernel(state, *built.kernel, options);
      // The fastest of many measurements is often one that was lucky: a new best is believed only if a second, longer one confirms it.
      if (measured.status == MeasureStatus::Ok && measured.ratio > 0 && measured.ratio < 1) {
        options.pairs = 18, options.max_pairs = 32, options.budget_seconds = 0.25;
        MeasureResult again = measure_kernel(state, *built.kernel, options);
        if (again.status != MeasureStatus::Ok || again.seconds > measured.seconds) measured = std::move(again);
      }
      result_.profile.measure += now() - begin;
      if (measured.status == MeasureStatus::WorkerLost && !measured.was_tried) {
        machine_error_ = cat("kernels cannot be measured any more: ", measured.message);
        return;
      }
    } else {
      measured.status = MeasureStatus::BuildError;
      measured.message = built.problem;
    }
    Record& record = trial.record;
    set_result(record, measured);
    store(trial);
    if (trial.stored) note_object(state, record);
    // The untuned program is no incumbent: timing candidates in turn with it would take its time, not theirs.
    if (record.ok() && trial.stored && !trial.is_baseline && record.seconds < best_in_batch(state)) {
      best_in_batch_ = record.seconds;
      state.incumbent = std::move(*built.kernel);
    }
  }

  // Many decisions lead to the same instructions. They are known to take the same time; only that is stored, and no trial is spent.
  static bool is_same_code(const TaskState& state, const Kernel& kernel, Record& record) {
    Hash128 object = object_hash(kernel);
    record.object = to_hex(object);
    auto known = state.objects.find(object);
    if (known == state.objects.end()) return false;
    record.status = Record::same_code;
    record.error = cat("as record ", known->second);
    return true;
  }

  double best_in_batch(const TaskState& state) const {
    double best = state.progress.best_seconds > 0 ? state.progress.best_seconds : std::numeric_limits<double>::infinity();
    return best_in_batch_ > 0 ? std::min(best, best_in_batch_) : best;
  }

  void store(Trial& trial) {
    double begin = now();
    auto id = database_.add_record(trial.record);
    result_.profile.database += now() - begin;
    if (!id) {
      machine_error_ = id.error();
      return;
    }
    trial.record.id = *id;
    trial.stored = true;
  }

  void replay_measurement(TaskState& state, const Batch& batch, Trial& trial) {
    auto at = state.recorded.find(trial.candidate.program);
    if (at != state.recorded.end()) {
      trial.record = at->second;
    } else {
      fill_record(state, batch.generation, trial);
      trial.record.status = "not recorded";
    }
    trial.stored = true;
  }

  // Progress as seen from outside while the batch runs: a copy, for the states belong to the searching thread.
  void observe(const Batch& batch, const Trial& trial) {
    if (!trial.record.is_trial()) return;
    TaskProgress& shown = shown_[batch.task];
    ++shown.trials;
    shown.failed += !trial.record.ok();
    if (trial.record.ok() && (shown.best_seconds == 0 || trial.record.seconds < shown.best_seconds)) shown.best_seconds = trial.record.seconds;
    if (trial.is_baseline && trial.record.ok()) shown.baseline_seconds = trial.record.seconds;
    observer_.on_trial(shown_, static_cast<std::size_t>(batch.task), trial.record);
  }

  // ---- after a batch

  void finish(std::future<void>& measured, Batch& batch) {
    double begin = now();
    measured.get();
    result_.profile.waiting += now() - begin;
    in_flight_ = false;
    best_in_batch_ = 0;
    TaskState& state = states_[batch.task];
    for (Trial& trial : batch.trials) {
      if (!trial.stored) continue;
      note_trial(state, trial.is_baseline ? nullptr : &trial.candidate, trial.candidate.program, trial.record);
      bool good = trial.record.ok();
      if (trial.is_baseline && good) state.progress.baseline_seconds = trial.record.seconds;
      // Its code may be that of the untuned program, the only one before it.
      if (trial.is_constructed) state.progress.zero_trial_seconds = good ? trial.record.seconds : trial.record.is_trial() ? 0 : state.progress.baseline_seconds;
      if (!trial.record.is_trial()) {
        ++result_.same_code;
        continue;
      }
      ++result_.measured;
      double seconds = good ? trial.record.seconds : std::numeric_limits<double>::infinity();
      if (!trial.is_baseline) add_to_dataset(batch.task, trial.candidate, seconds);
    }
    for (const Record& record : others_.take()) {
      std::size_t known = state.history.size();
      note_record(state, record);
      if (state.history.size() > known) add_to_dataset(batch.task, state.history.back().candidate, state.history.back().seconds);
    }
    history_[batch.task].best.push_back(state.progress.best_seconds);
    if (!task_problem_.empty()) give_up(batch.task, std::exchange(task_problem_, {}));
    if (!machine_error_.empty()) result_.error = machine_error_;
    if (state.progress.trials >= state.progress.wanted) end_task(batch.task);
    else if (state.progress.problem.empty()) history_[batch.task].alive = true;
    batch = {};
  }

  void add_to_dataset(int task, const Candidate& candidate, double seconds) {
    std::vector<float> rows;
    const std::vector<float>* kept = states_[task].known.features(candidate.program);
    if (!kept) {
      CandidateBuilder builder(states_[task].space);
      Candidate copy = candidate;
      if (!builder.build(copy, nullptr, &rows)) return;
    }
    dataset_.features.add(kept ? *kept : rows);
    dataset_.seconds.push_back(seconds);
    dataset_.group.push_back(task);
  }

  void train() {
    if (!model_ || dataset_.size() < kEnoughToLearn || dataset_.size() == trained_on_) return;
    double begin = now();
    TrainReport report = model_->update(dataset_, Effort::Round);
    if (!report.problem.empty()) observer_.on_message(cat("cost model: ", report.problem));
    model_ready_ = report.problem.empty() || model_ready_;
    trained_on_ = dataset_.size();
    result_.profile.training += now() - begin;
  }

  static constexpr std::size_t kFeatureRoom = std::size_t{128} << 20;  // bytes, of all tasks

  static constexpr int kBatch = 32;         // trials per round
  static constexpr int kEnoughToLearn = 16; // measured candidates before the learned model is used

  const std::vector<TuneTask>& tasks_;
  const rules::Library& library_;
  const TuneOptions& options_;
  Database& database_;
  Measurer* measurer_;
  TuneObserver& observer_;
  const std::atomic<bool>& stop_;
  double begin_;
  bool overlapped_ = false;  // searching while measuring
  EvolutionOptions evolution_;
  EvolutionStats stats_;
  std::vector<TaskState> states_;
  std::vector<TaskHistory> history_;
  std::vector<TaskProgress> shown_;
  TuneResult result_;

  std::unique_ptr<CostModel> model_;
  bool model_ready_ = false;
  Dataset dataset_;
  int trained_on_ = 0;

  int measuring_task_ = -1;
  bool in_flight_ = false;
  HashSet measuring_programs_;
  std::unique_ptr<LlvmCompiler> compiler_;
  Target compiler_target_;
  OtherTuners others_;
  double best_in_batch_ = 0;
  std::string task_problem_, machine_error_;  // of the database or the worker; set by the measuring thread, read after it is done
};

}  // namespace

TuneResult tune(const std::vector<TuneTask>& tasks, const rules::Library& library, const TuneOptions& options, Database& database,
                Measurer* measurer, TuneObserver& observer, const std::atomic<bool>& stop) {
  TW_CHECK(measurer || options.replay_measurements, "tune without a measurer");
  return Tuner(tasks, library, options, database, measurer, observer, stop).run();
}

}  // namespace tw
