#include "sampler/search/tune.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "costmodel/make_model.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/text/workload.h"
#include "runtime/lists/device_file.h"
#include "sampler/search/batch_runner.h"
#include "sampler/search/batch_search.h"
#include "sampler/search/expected_gain.h"
#include "sampler/search/fleet_runner.h"
#include "sampler/search/flight.h"
#include "sampler/search/machine_bound.h"
#include "sampler/search/other_cores.h"
#include "sampler/search/search_model.h"
#include "sampler/search/task_scheduler.h"
#include "sampler/search/transfer_seeds.h"
#include "sampler/space/parallel_for.h"

namespace tw {
namespace {

// Are there cores that its kernels leave alone while they are measured? Kernels with several threads take all of them,
// and so do OpenCL devices that are processors.
bool leaves_cores(const TuneTask& task) {
  return task.target.kind == TargetKind::Cuda || (task.target.threads == 1 && !is_device(task.target));
}

class Tuner {
 public:
  // One of `measurer` and `elsewhere`, or neither with replay_measurements.
  Tuner(const std::vector<TuneTask>& tasks, const rules::Library& library, const TuneOptions& options,
        Database& database, Measurer* measurer, const MakeRunner& elsewhere, TuneObserver& observer,
        const std::atomic<bool>& stop)
      : tasks_(tasks),
        library_(library),
        options_(options),
        database_(database),
        measurer_(measurer),
        is_elsewhere_(static_cast<bool>(elsewhere)),
        observer_(observer),
        stop_(stop),
        begin_(seconds_now()),
        search_(options),
        flight_(tasks.size()) {
    int cores = usable_threads();
    // Machines of a fleet measure beside it, whatever cores there are; the candidates are those of a run on one of
    // them.
    overlapped_ =
        options.overlaps && (cores > 1 || is_elsewhere_) && std::all_of(tasks.begin(), tasks.end(), leaves_cores);
    int threads = options.threads > 0             ? options.threads
                  : overlapped_ && !is_elsewhere_ ? std::min(cores - 1, count_cpus_of_search())
                                                  : cores;
    search_.round_options() = {.threads = threads, .stop = [this] { return must_stop(); }};
    auto must_end = [this] { return stop_ || is_late(); };
    if (measurer_) measurer_->stop_when(must_end);
    RunnerParts with{options_, std::move(must_end), database_, observer_, result_.profile};
    if (is_elsewhere_)
      runner_ = elsewhere(with);
    else
      runner_ = std::make_unique<BatchRunner>(with, BatchOptions{overlapped_, threads}, measurer_);
  }

  TuneResult run() {
    open_tasks();
    model_ = make_search_model(options_, search_, observer_);
    search_.round_options().keep_features = model_.model != nullptr;
    OtherCores affinity(overlapped_ && !is_elsewhere_);
    // A batch may give fewer trials than it has candidates: then its task goes on after it.
    while (!finished() || !flight_.is_empty()) step();
    close_tasks();
    if (measurer_) measurer_->stop_when({});
    search_.add_stats(result_);
    result_.seconds = seconds_now() - begin_;
    result_.interrupted = stop_;
    result_.tasks = progress();
    if (options_.keep_model) {
      train();
      if (model_.is_ready) result_.model_bytes = model_.model->save();
    }
    return result_;
  }

 private:
  // Searches and starts a batch, or waits for what is in flight. Where searching and measuring overlap, the next batch
  // is that of another task if there is one: a task's own results are all known when it is searched. A task alone is
  // searched without the results of its batch in flight, however fast anything is: the same seed and the same
  // measurements give the same candidates. With a wide plan they do not.
  void step() {
    plan_ = options_.overlaps ? plan_flight(runner_->capacity(), flight_.round_seconds()) : FlightPlan();
    if (plan_.is_wide) take_ended(Await::Nothing);
    bool has_enough = plan_.is_wide && flight_.trials() > plan_.depth;
    if (!flight_.is_empty() && (finished() || (!overlapped_ && !plan_.is_wide) || has_enough)) {
      take_ended(plan_.is_wide ? Await::Some : Await::Batch);
      if (!finished() && !plan_.is_wide) train();
      return;
    }
    double begin = runner_->now();
    if (plan_.is_wide && flight_.may_train(begin)) {
      train();
      flight_.note_training(begin, runner_->now());
    }
    next_ = search();
    bool is_found = !next_.trials.empty() && !must_stop();
    if (is_found && overlapped_) runner_->begin_builds(next_, states_[next_.task]);
    if (!plan_.is_wide || !is_found) take_ended(plan_.is_wide ? Await::Some : Await::Batch);
    if (!is_found || must_stop()) return;  // the last batch of the last task is still to be measured
    if (has_ended(static_cast<std::size_t>(next_.task))) return;  // while this batch was searched
    Batch batch = std::exchange(next_, {});
    TaskState& state = states_[batch.task];
    flight_.add(batch);
    ++history_[batch.task].in_flight;
    runner_->start(std::move(batch), state, progress());
    if (overlapped_ && !plan_.is_wide) train();
    flight_.note_round(runner_->now() - begin);
  }

  // ---- begin and end

  // Spaces are built when their tasks are searched for the first time.
  void open_tasks() {
    double begin = seconds_now();
    states_.resize(tasks_.size());
    std::size_t share = std::max(options_.limits.learned / tasks_.size(), options_.limits.learned_of_a_task) / 2;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      states_[i].host = runner_->host_of(tasks_[i]);
      name_task(states_[i], tasks_[i], library_, options_, {share, share});
      states_[i].known.room = options_.limits.known_bytes;
    }
    result_.error = runner_->machine_error();
    auto must_end = [this] {
      return stop_ || (is_late() && seconds_now() - begin_ >= options_.limits.reading_seconds);
    };
    are_records_read_ = read_records(states_, database_, options_, must_end);
    if (!are_records_read_ && !stop_)
      observer_.on_message(cat("the records of earlier runs were not all read within ", options_.seconds,
                               " s: what is said of them is a part"));
    if (search_.has_transfer() && !options_.replay_measurements && !stop_) {
      if (DatabaseStatus noted = note_transfer_seeds(states_, database_, must_end); !noted)
        observer_.on_message(noted.error());
    }
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      history_.push_back({tasks_[i].weight, states_[i].progress.problem.empty(), {}});
      if (!states_[i].progress.problem.empty()) give_up(i, states_[i].progress.problem);
      if (!must_stop()) end_if_enough(i);
    }
    std::set<std::string> unknown;
    for (const TuneTask& task : tasks_) {
      std::string why;
      if (is_gpu(task.target) && !device_of(task.target, why) && unknown.insert(why).second)
        observer_.on_message(why.substr(0, why.find_last_not_of('\n') + 1) +
                             ". Until then candidates are ranked as for a processor before they are measured");
    }
    if (database_.damaged() > 0) {
      observer_.on_message(cat(database_.damaged(), " damaged rows of ", database_.path(),
                               " were left out; `tracewright db verify ", database_.path(), "` says more"));
    }
    result_.profile.space += seconds_now() - begin;
  }

  // False if the task cannot be tuned.
  bool open(std::size_t task) {
    TaskState& state = states_[task];
    if (state.is_open) return true;
    double begin = seconds_now();
    result_.traces_read += static_cast<i64>(state.unread.size());
    // Nothing is being measured yet while the first task is opened.
    const int threads =
        flight_.is_empty() && options_.threads == 0 ? usable_threads() : search_.round_options().threads;
    open_space(state, library_, options_, observer_, [this] { return must_stop(); }, threads);
    for (const std::string& rule : rules_without_effect(state.space.space)) {
      if (rules_said_.insert(rule).second) observer_.on_message(rule);
    }
    result_.profile.space += seconds_now() - begin;
    if (must_stop()) return false;
    if (!state.progress.problem.empty()) return give_up(task, state.progress.problem), false;
    learned_ += static_cast<i64>(state.sample.size());
    if (trained_on_ == 0) train(!model_.is_loaded && state.sample.size() <= kFullFit ? Effort::Full : Effort::Round);
    return true;
  }

  bool is_late() const { return options_.seconds > 0 && seconds_now() - begin_ >= options_.seconds; }
  bool must_stop() const { return stop_ || !result_.error.empty() || is_late(); }

  bool finished() const {
    return must_stop() || trials_left(false) == 0 ||
           std::none_of(history_.begin(), history_.end(), [](const TaskHistory& task) { return task.alive; });
  }

  std::vector<TaskProgress> progress() const {
    std::vector<TaskProgress> all;
    for (const TaskState& state : states_) all.push_back(state.progress);
    return all;
  }

  bool has_ended(std::size_t i) const { return states_[i].progress.done || !states_[i].progress.problem.empty(); }

  void end_task(std::size_t i, Ended why) {
    history_[i].alive = false;
    states_[i].progress.done = true;
    states_[i].progress.ended = why;
    close(i);
  }

  // Its results in flight still need its space.
  void close(std::size_t i) {
    if (flight_.batches(static_cast<int>(i)) > 0) return;
    if (next_.builds && next_.task == static_cast<int>(i)) next_.builds->end();  // they are made of its space
    close_space(states_[i]);
    ended_.push_back(i);
  }

  // Trials that all tasks together may still have; those in flight count where `in_flight` says so.
  i64 trials_left(bool with_flight) const {
    if (options_.total_trials == 0) return std::numeric_limits<i64>::max();
    i64 made = with_flight ? flight_.trials() : 0;
    for (const TaskState& state : states_) made += state.progress.trials;
    return std::max<i64>(0, options_.total_trials - made);
  }

  // Ends a task that has its trials, or of which nothing is left to gain.
  void end_if_enough(std::size_t i) {
    TaskProgress& progress = states_[i].progress;
    if (!progress.problem.empty()) return;
    if (progress.trials >= progress.wanted)
      return end_task(i, progress.wanted == options_.total_trials ? Ended::TotalTrials : Ended::Trials);
    progress.expected_gain = expected_gain(states_[i].trial_seconds);
    if (options_.min_gain == 0 || options_.more > 0 || progress.best_seconds == 0) return;
    if (progress.expected_gain < options_.min_gain) return end_task(i, Ended::MinGain);
    if (is_at_bound(i)) end_task(i, Ended::Bound);
  }

  // Peaks that were measured on a busy machine are too low: what seems to be at the bound is compared with one measured
  // now.
  bool is_at_bound(std::size_t i) {
    if (options_.replay_measurements || (is_elsewhere_ && !options_.bound)) return false;
    TaskProgress& progress = states_[i].progress;
    auto measure = [&] {
      Bound now = options_.bound ? options_.bound(tasks_[i]) : machine_.of(tasks_[i]);
      if (progress.bound.seconds == 0 || (now.seconds > 0 && now.seconds < progress.bound.seconds))
        progress.bound = now;
    };
    auto is_near = [&] { return progress.best_seconds <= kNearBound * progress.bound.seconds; };
    if (progress.bound.seconds == 0) measure();
    if (!is_near()) return false;
    measure();
    return is_near();
  }

  void give_up(std::size_t i, const std::string& why) {
    history_[i].alive = false;
    states_[i].progress.problem = why;
    states_[i].progress.ended = Ended::Problem;
    close(i);
    observer_.on_message(cat(tasks_[i].name, ": ", why));
  }

  // Closes ended tasks in the worker. Only while nothing is measured.
  void close_ended() {
    for (std::size_t i : std::exchange(ended_, {})) runner_->close(states_[i]);
  }

  void close_tasks() {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      TaskState& state = states_[i];
      runner_->close(state);
      if (!state.progress.done && state.progress.problem.empty() && trials_left(false) == 0)
        end_task(i, Ended::TotalTrials);
      if (state.progress.trials == 0 && state.progress.problem.empty() && is_late() && are_records_read_)
        give_up(i, cat("no trial was done within ", options_.seconds, " s; this task needs a larger `seconds`"));
      if (state.progress.trials > 0 && state.progress.failed == state.progress.trials &&
          state.progress.problem.empty()) {
        std::vector<std::string> kinds;
        for (const auto& [status, count] : state.failures) kinds.push_back(cat(count, " ", status));
        give_up(i, cat("every candidate failed (", join(kinds, ", "), "); the first one: ", state.example_failure));
      }
    }
  }

  // ---- search

  Batch search() {
    int chosen = next_task(history_);
    if (chosen < 0) return {};
    TaskState& state = states_[chosen];
    if (!open(chosen)) return {};
    double begin = seconds_now() - search_.stats().first_kernel_seconds;
    Rng rng(options_.seed, static_cast<u64>(chosen), static_cast<u64>(state.rounds));
    Batch batch{chosen, state.rounds, {}};
    if (trials_left(true) == 0) return {};  // but some of those in flight may be none
    i64 left = std::min(state.progress.wanted - state.progress.trials - flight_.trials(chosen), trials_left(true));
    std::vector<Candidate> in_flight = plan_.is_wide ? flight_.candidates(chosen) : std::vector<Candidate>();
    std::string problem = search_.find(state,
                                       {.known = state.progress.trials + flight_.trials(chosen),
                                        .left = left,
                                        .least = plan_.batch,
                                        .tasks = tasks_.size(),
                                        .in_flight = in_flight},
                                       model_.is_ready ? model_.model.get() : nullptr, batch, rng);
    if (!problem.empty()) return give_up(chosen, problem), Batch();
    if (std::string faults = state.space.post_faults->take(); !faults.empty()) observer_.on_message(faults);
    ++state.rounds;
    forget_others(chosen);
    result_.search_seconds += seconds_now() - search_.stats().first_kernel_seconds - begin;
    if (must_stop()) return {};
    if (batch.trials.empty()) {
      if (left <= 0) {
        if (flight_.trials(chosen) == 0)
          end_task(chosen, Ended::Trials);
        else
          history_[chosen].alive = false;
      } else if (flight_.trials(chosen) == 0) {
        observer_.on_message(cat(tasks_[chosen].name, ": the search found no further candidate"));
        end_task(chosen, Ended::Space);
      }
      return batch;
    }
    if (state.progress.wanted - state.progress.trials - flight_.trials(chosen) <= static_cast<i64>(batch.trials.size()))
      history_[chosen].alive = false;
    for (const Trial& trial : batch.trials) state.measured.insert(trial.candidate.program);
    return batch;
  }

  // Frees what was built of the least recently searched tasks first.
  void forget_others(int searched) {
    std::erase(last_searched_, searched);
    last_searched_.push_back(searched);
    std::size_t bytes = 0;
    for (std::size_t i = last_searched_.size(); i-- > 0;) {
      KnownCandidates& known = states_[last_searched_[i]].known;
      bytes += known.bytes();
      if (bytes > options_.limits.known_bytes && last_searched_[i] != searched) known.forget();
    }
  }

  // ---- after a batch

  void take_ended(Await await) {
    double begin = seconds_now();
    std::vector<Batch> ended = runner_->take_ended(await);
    result_.profile.waiting += seconds_now() - begin;
    for (Batch& batch : ended) note(batch);
  }

  void note(Batch& batch) {
    flight_.remove(batch);
    history_[batch.task].in_flight -= batch.is_last;
    TaskState& state = states_[batch.task];
    for (Trial& trial : batch.trials) {
      if (!trial.stored) continue;
      note_trial(state, trial.candidate.program, trial.record);
      bool good = trial.record.ok();
      if (trial.is_constructed && good) state.progress.zero_trial_seconds = trial.record.seconds;
      // Its code may be that of the zero-trial kernel, the only one before it.
      if (trial.is_baseline)
        state.progress.baseline_seconds = good                      ? trial.record.seconds
                                          : trial.record.is_trial() ? 0
                                                                    : state.progress.zero_trial_seconds;
      if (trial.is_baseline && trial.record.status == name_of(MeasureStatus::WrongResult)) {
        observer_.on_message(cat(state.progress.name, ": the untuned program itself is called wrong (",
                                 trial.record.error,
                                 "): the tolerance is too tight for this workload; state one (`tolerance`)"));
      }
      if (!trial.record.is_trial()) {
        ++result_.same_code;
        continue;
      }
      ++result_.measured;
      double seconds = good ? trial.record.seconds : std::numeric_limits<double>::infinity();
      if (!trial.is_baseline) learned_ += note_candidate(state, std::move(trial.candidate), seconds);
    }
    for (const Record& record : runner_->take_others()) learned_ += note_record(state, record);
    if (!runner_->machine_error().empty()) result_.error = runner_->machine_error();
    if (!batch.is_last) return;
    auto task = static_cast<std::size_t>(batch.task);
    history_[task].best.push_back(state.progress.best_seconds);
    if (has_ended(task)) {  // with this batch in flight
      if (flight_.batches(batch.task) == 0) close(task);
    } else {
      if (!batch.problem.empty()) give_up(task, batch.problem);
      if (state.progress.problem.empty()) history_[task].alive = true;
      end_if_enough(task);
    }
    if (flight_.is_empty()) close_ended();
  }

  // The same number of candidates of every task, oldest first.
  Dataset dataset() const {
    Dataset data;
    data.features.columns = model_columns(options_.cost_model);
    for (std::size_t i = 0; i < states_.size(); ++i) {
      states_[i].sample.each([&](const auto& entry) {
        data.features.add(entry.value.features);
        data.seconds.push_back(entry.seconds);
        data.group.push_back(static_cast<i32>(i));
      });
    }
    return data;
  }

  void train(Effort effort = Effort::Round) {
    if (!model_.model || learned_ < BatchSearch::kEnoughToLearn || learned_ == trained_on_) return;
    // A few percent of new candidates change little.
    i64 candidates = 0;
    for (const TaskState& state : states_) candidates += static_cast<i64>(state.sample.size());
    if (trained_on_ > 0 && learned_ - trained_on_ < std::max<i64>(BatchSearch::kEnoughToLearn, candidates / 20)) return;
    double begin = seconds_now();
    Dataset data = dataset();
    result_.most_learned = std::max(result_.most_learned, static_cast<i64>(data.size()));
    TrainReport report = model_.model->update(data, effort);
    if (!report.problem.empty()) observer_.on_message(cat("cost model: ", report.problem));
    model_.is_ready = report.problem.empty() || model_.is_ready;
    trained_on_ = learned_;
    result_.profile.training += seconds_now() - begin;
  }

  static constexpr std::size_t kFullFit =
      1024;  // a run's first fit takes the time it needs (Effort::Full) up to so many candidates
  static constexpr double kNearBound = 1.02;

  const std::vector<TuneTask>& tasks_;
  const rules::Library& library_;
  const TuneOptions& options_;
  Database& database_;
  Measurer* measurer_;
  bool is_elsewhere_;  // that kernels are measured
  TuneObserver& observer_;
  const std::atomic<bool>& stop_;
  double begin_;
  bool are_records_read_ = true;
  bool overlapped_ = false;  // searching while measuring
  BatchSearch search_;
  std::vector<TaskState> states_;
  std::vector<TaskHistory> history_;
  MachineBound machine_;
  TuneResult result_;

  SearchModel model_;
  i64 learned_ = 0, trained_on_ = 0;  // measured candidates so far, and when the model was trained last

  Flight flight_;
  FlightPlan plan_;
  Batch next_;                      // searched, and being compiled, while another one is measured
  std::vector<int> last_searched_;  // tasks, the latest last
  std::vector<std::size_t> ended_;  // that the worker still has, maybe
  std::set<std::string> rules_said_;
  std::unique_ptr<TrialRunner> runner_;
};

// The result of a run whose search is none.
std::optional<TuneResult> refused_search(const TuneOptions& options) {
  std::vector<ChoiceError> errors = errors_of(options.search);
  if (errors.empty()) return std::nullopt;
  TuneResult refused;
  refused.error = cat("the search: ", errors[0].text);
  return refused;
}

}  // namespace

const char* name_of(Ended ended) {
  constexpr const char* kNames[] = {"", "trials", "total_trials", "space", "bound", "min_gain", "problem"};
  return kNames[static_cast<int>(ended)];
}

TuneResult tune(const std::vector<TuneTask>& tasks, const rules::Library& library, const TuneOptions& options,
                Database& database, Measurer* measurer, TuneObserver& observer, const std::atomic<bool>& stop) {
  TW_CHECK(measurer || options.replay_measurements, "tune without a measurer");
  std::optional<TuneResult> refused = refused_search(options);
  return refused ? *refused : Tuner(tasks, library, options, database, measurer, {}, observer, stop).run();
}

TuneResult tune_with(const std::vector<TuneTask>& tasks, const rules::Library& library, const TuneOptions& options,
                     Database& database, const MakeRunner& make, TuneObserver& observer,
                     const std::atomic<bool>& stop) {
  std::optional<TuneResult> refused = refused_search(options);
  return refused ? *refused : Tuner(tasks, library, options, database, nullptr, make, observer, stop).run();
}

TuneResult tune_on_fleet(const std::vector<TuneTask>& tasks, const rules::Library& library, const TuneOptions& options,
                         Database& database, TunerLink& fleet, TuneObserver& observer, const std::atomic<bool>& stop) {
  TW_CHECK(!options.replay_measurements, "a fleet measures");
  auto make = [&](const RunnerParts& with) { return std::make_unique<FleetRunner>(with, fleet); };
  return tune_with(tasks, library, options, database, make, observer, stop);
}

}  // namespace tw
