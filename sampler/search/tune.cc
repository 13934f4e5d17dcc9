#include "sampler/search/tune.h"

#include <algorithm>
#include <future>
#include <limits>
#include <map>
#include <set>

#include "costmodel/accuracy.h"
#include "costmodel/make_model.h"
#include "dsl/analysis/points.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/text/workload.h"
#include "runtime/device_file.h"
#include "sampler/search/batch_runner.h"
#include "sampler/search/other_cores.h"
#include "sampler/search/parallel_for.h"
#include "sampler/search/task_scheduler.h"

namespace tw {
namespace {

class Tuner {
 public:
  Tuner(const std::vector<TuneTask>& tasks, const rules::Library& library, const TuneOptions& options, Database& database,
        Measurer* measurer, TuneObserver& observer, const std::atomic<bool>& stop)
      : tasks_(tasks), library_(library), options_(options), database_(database), measurer_(measurer), observer_(observer), stop_(stop),
        begin_(seconds_now()) {
    // Kernels with several threads are measured while nothing else runs; others leave a core to the search.
    int cores = usable_threads();
    overlapped_ = cores > 1 && std::all_of(tasks.begin(), tasks.end(), [](const TuneTask& t) { return t.target.threads == 1 && !is_device(t.target); });
    evolution_.threads = options.threads > 0 ? options.threads : overlapped_ ? cores - 1 : cores;
    BatchOptions how{.builds_ahead = overlapped_, .threads = evolution_.threads, .must_stop = [this] { return stop_ || is_late(); }};
    runner_.emplace(options_, std::move(how), database_, measurer_, observer_, result_.profile);
  }

  TuneResult run() {
    open_tasks();
    make_cost_model();
    // Where searching and measuring overlap, the next batch is that of another task if there is one: a task's own results are all known when it is
    // searched. A task alone is searched without the results of its batch in flight, however fast anything is: the same seed and the
    // same measurements give the same candidates.
    OtherCores affinity(overlapped_);
    Batch measuring;
    std::future<void> measured;
    // A batch may give fewer trials than it has candidates: then its task goes on after it.
    while (!finished() || measured.valid()) {
      if (measured.valid() && (finished() || !overlapped_)) {
        finish(measured, measuring);
        if (!finished()) train();
        continue;
      }
      Batch next = search();
      if (measured.valid()) finish(measured, measuring);
      if (next.trials.empty() || must_stop()) continue;  // the last batch of the last task is still to be measured
      if (!states_[next.task].progress.problem.empty()) continue;  // given up while this batch was searched
      measuring = std::move(next);
      in_flight_ = history_[measuring.task].in_flight = true;
      measured = start_beside(overlapped_, [this, &measuring, shown = progress()] { runner_->run(measuring, states_[measuring.task], shown); });
      if (overlapped_) train();
    }
    close_tasks();
    add_stats();
    result_.seconds = seconds_now() - begin_;
    result_.interrupted = stop_;
    result_.tasks = progress();
    return result_;
  }

 private:
  // ---- begin and end

  void open_tasks() {
    double begin = seconds_now();
    states_.resize(tasks_.size());
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      states_[i].host = host_of(tasks_[i].target);
      open_task(states_[i], tasks_[i], library_, options_, database_, observer_, [this] { return must_stop(); });
      states_[i].known.feature_room = kFeatureRoom / tasks_.size();
      history_.push_back({tasks_[i].weight, states_[i].progress.problem.empty(), {}});
      if (!states_[i].progress.problem.empty()) give_up(i, states_[i].progress.problem);
      if (states_[i].progress.trials >= states_[i].progress.wanted) end_task(i);
    }
    std::set<std::string> said;
    for (const TaskState& state : states_) {
      for (const std::string& rule : rules_without_effect(state.space.space)) {
        if (said.insert(rule).second) observer_.on_message(rule);
      }
    }
    std::set<std::string> unknown;
    for (const TuneTask& task : tasks_) {
      std::string why;
      if (is_gpu(task.target) && !device_of(task.target, why) && unknown.insert(why).second)
        observer_.on_message(why.substr(0, why.find_last_not_of('\n') + 1) + ". Until then candidates are ranked as for a processor before they are measured");
    }
    if (database_.damaged() > 0) {
      observer_.on_message(cat(database_.damaged(), " damaged rows of ", database_.path(), " were left out; `tracewright db verify ",
                               database_.path(), "` says more"));
    }
    result_.profile.space = seconds_now() - begin;
  }

  // Asked once for each target.
  const std::string& host_of(const Target& target) {
    auto [at, is_new] = hosts_.try_emplace(to_string(target));
    if (is_new) at->second = measuring_host(target, worker_options(target).device);
    return at->second;
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

  bool is_late() const { return options_.seconds > 0 && seconds_now() - begin_ >= options_.seconds; }
  bool must_stop() const { return stop_ || !result_.error.empty() || is_late(); }

  bool finished() const {
    return must_stop() || std::none_of(history_.begin(), history_.end(), [](const TaskHistory& task) { return task.alive; });
  }

  std::vector<TaskProgress> progress() const {
    std::vector<TaskProgress> all;
    for (const TaskState& state : states_) all.push_back(state.progress);
    return all;
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
    double begin = seconds_now();
    Rng rng(options_.seed, static_cast<u64>(chosen), static_cast<u64>(state.rounds));
    Batch batch{chosen, state.rounds, {}};
    i64 left = state.progress.wanted - state.progress.trials - in_flight(chosen);
    HashSet taken = state.measured;
    if (measuring_task_ == chosen) taken.insert(measuring_programs_.begin(), measuring_programs_.end());
    if (state.rounds == 0 && state.progress.trials == 0) {
      add_first_trials(state, rng, batch, taken);
      add_seeds(state, left, batch, taken);
    }
    int count = static_cast<int>(std::min<i64>(batch_size(state.progress.trials + in_flight(chosen)), left) - static_cast<i64>(batch.trials.size()));
    if (count > 0) {
      std::vector<Candidate> proposed = evolve(state.space, state.parents(evolution_.population), taken,
                                               model_ready_ ? model_.get() : nullptr, count, rng, evolution_, state.known, stats_);
      for (Candidate& candidate : proposed) batch.trials.push_back({.candidate = std::move(candidate)});
    }
    ++state.rounds;
    result_.search_seconds += seconds_now() - begin;
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

  // The first batches are small, so that what they find is used early: 8, 16, then 32.
  static i64 batch_size(i64 trials) { return trials < kFirstBatch ? kFirstBatch : trials < 3 * kFirstBatch ? 2 * kFirstBatch : kBatch; }

  // The untuned program runs a hundred million steps a second or more, on one core or as one work-item: where it takes longer than a second or
  // two, it would only be waited for.
  static bool can_run_untuned(const TuneTask& task) { return points_of(task.program.program) <= (task.target.kind == TargetKind::Cuda ? 1e8 : 2e8); }

  // The best draw of the draft model: what zero trials give. Behind it the untuned program, so that tuning can never make things worse.
  void add_first_trials(TaskState& state, const Rng& rng, Batch& batch, HashSet& taken) {
    Hash128 untuned = normalized_hash(state.space.base);
    std::optional<Candidate> first = construct(state.space, rng.fork(1), evolution_, state.known, stats_);
    if (first && first->program != untuned && taken.insert(first->program).second) batch.trials.push_back({.candidate = std::move(*first), .is_constructed = true});
    if (!can_run_untuned(*state.task) && !batch.trials.empty()) return;
    Trial baseline;
    baseline.is_baseline = true;
    baseline.candidate.program = untuned;
    taken.insert(untuned);
    batch.trials.push_back(std::move(baseline));
  }

  // The best of other machines, which may be the best here.
  static void add_seeds(const TaskState& state, i64 left, Batch& batch, HashSet& taken) {
    std::size_t most = static_cast<std::size_t>(std::min<i64>(left, static_cast<i64>(batch.trials.size()) + kFirstBatch / 2));
    for (const Candidate& seed : state.seeds) {
      if (batch.trials.size() < most && taken.insert(seed.program).second) batch.trials.push_back({.candidate = seed});
    }
  }

  i64 in_flight(int task) const { return measuring_task_ == task && in_flight_ ? static_cast<i64>(measuring_programs_.size()) : 0; }

  // ---- after a batch

  void finish(std::future<void>& measured, Batch& batch) {
    double begin = seconds_now();
    measured.get();
    result_.profile.waiting += seconds_now() - begin;
    in_flight_ = history_[batch.task].in_flight = false;
    TaskState& state = states_[batch.task];
    for (Trial& trial : batch.trials) {
      if (!trial.stored) continue;
      note_trial(state, trial.is_baseline ? nullptr : &trial.candidate, trial.candidate.program, trial.record);
      bool good = trial.record.ok();
      if (trial.is_constructed && good) state.progress.zero_trial_seconds = trial.record.seconds;
      // Its code may be that of the zero-trial kernel, the only one before it.
      if (trial.is_baseline) state.progress.baseline_seconds = good ? trial.record.seconds : trial.record.is_trial() ? 0 : state.progress.zero_trial_seconds;
      if (trial.is_baseline && trial.record.status == name_of(MeasureStatus::WrongResult)) {
        observer_.on_message(cat(state.progress.name, ": the untuned program itself is called wrong (", trial.record.error,
                                 "): the tolerance is too tight for this workload; state one (`tolerance`)"));
      }
      if (!trial.record.is_trial()) {
        ++result_.same_code;
        continue;
      }
      ++result_.measured;
      double seconds = good ? trial.record.seconds : std::numeric_limits<double>::infinity();
      if (!trial.is_baseline) add_to_dataset(batch.task, trial.candidate, seconds);
    }
    for (const Record& record : runner_->take_others()) {
      std::size_t known = state.history.size();
      note_record(state, record);
      if (state.history.size() > known) add_to_dataset(batch.task, state.history.back().candidate, state.history.back().seconds);
    }
    history_[batch.task].best.push_back(state.progress.best_seconds);
    if (std::string problem = runner_->take_task_problem(); !problem.empty()) give_up(batch.task, problem);
    if (!runner_->machine_error().empty()) result_.error = runner_->machine_error();
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
    double begin = seconds_now();
    TrainReport report = model_->update(dataset_, Effort::Round);
    if (!report.problem.empty()) observer_.on_message(cat("cost model: ", report.problem));
    model_ready_ = report.problem.empty() || model_ready_;
    trained_on_ = dataset_.size();
    result_.profile.training += seconds_now() - begin;
  }

  static constexpr std::size_t kFeatureRoom = std::size_t{128} << 20;  // bytes, of all tasks

  static constexpr i64 kFirstBatch = 8, kBatch = 32;  // trials per round
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
  std::map<std::string, std::string> hosts_;
  TuneResult result_;

  std::unique_ptr<CostModel> model_;
  bool model_ready_ = false;
  Dataset dataset_;
  int trained_on_ = 0;

  int measuring_task_ = -1;
  bool in_flight_ = false;
  HashSet measuring_programs_;
  std::optional<BatchRunner> runner_;
};

}  // namespace

TuneResult tune(const std::vector<TuneTask>& tasks, const rules::Library& library, const TuneOptions& options, Database& database,
                Measurer* measurer, TuneObserver& observer, const std::atomic<bool>& stop) {
  TW_CHECK(measurer || options.replay_measurements, "tune without a measurer");
  return Tuner(tasks, library, options, database, measurer, observer, stop).run();
}

}  // namespace tw
