#include "sampler/search/fleet_runner.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"

namespace tw {

FleetRunner::FleetRunner(const RunnerParts& with, TunerLink& fleet)
    : TrialRunner(with),
      fleet_(fleet),
      waiting_{.must_stop = with.must_stop,
               .say = [&observer = with.observer](const std::string& text) { observer.on_message(text); }},
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  TW_CHECK(wake_ >= 0, "an event of the system");
}

FleetRunner::~FleetRunner() {
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  eventfd_write(wake_, 1);
  if (thread_.joinable()) thread_.join();
  ::close(wake_);
}

// ---- on the thread that searches

std::string FleetRunner::host_of(const TuneTask& task) {
  std::optional<MeasuredTarget> found = fleet_.machine_for(to_string(task.target), waiting_, task.machine);
  if (!found) return machine_error_ = fleet_.error(), "no machine";
  capacity_.machines = static_cast<int>(fleet_.machines());
  return task.timing == Timing::Cold ? cat(found->host, kColdCaches) : found->host;
}

MeasuringCapacity FleetRunner::capacity() {
  std::lock_guard lock(mutex_);
  return capacity_;
}

std::string FleetRunner::machine_error() {
  std::lock_guard lock(mutex_);
  return machine_error_;
}

void FleetRunner::start(Batch batch, TaskState& state, std::vector<TaskProgress> progress) {
  Flying flying{.batch = std::move(batch), .state = &state, .progress = std::move(progress)};
  std::vector<Trial>& trials = flying.batch.trials;
  flying.left = trials.size();
  for (std::size_t i = 0; i < trials.size(); ++i) {
    QueuedTrial next;
    if (prepare(flying, state, trials[i], next)) {
      flying.queued.push_back(std::move(next));
      flying.places.push_back(i);
    } else {
      flying.failed.push_back(i);
    }
  }
  {
    std::lock_guard lock(mutex_);
    flying_.push_back(std::move(flying));
    started_.push_back(&flying_.back());
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  eventfd_write(wake_, 1);
}

// What is put into the queue. False: the trial has failed already.
bool FleetRunner::prepare(const Flying& flying, const TaskState& state, Trial& trial, QueuedTrial& queued) {
  fill_record(state, flying.batch.generation, trial);
  // Postprocessors of plugins may do now what they did not in the search.
  Result<Trace> trace = trial.is_baseline ? Trace() : full_trace(state.space, trial.candidate);
  std::string problem = trace ? "" : to_string(trace.rejected());
  if (trace && !trial.is_baseline) trial.record.trace = trace->print(0);
  if (trial.record.trace.size() > kLongestTrace)
    problem = cat("a trace of ", trial.record.trace.size(), " bytes is too long for the queue");
  if (!problem.empty()) {
    set_result(trial.record, {.status = MeasureStatus::BuildError, .message = problem});
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
            .incumbent = flying.progress.at(static_cast<std::size_t>(flying.batch.task)).best_record};
  return true;
}

bool FleetRunner::has(Await await) const {
  return flying_.empty() || std::ranges::any_of(flying_, [&](const Flying& flying) {
           return await == Await::Batch ? flying.left == 0 : !flying.ended.empty();
         });
}

std::vector<Batch> FleetRunner::take_ended(Await await) {
  std::vector<Batch> taken;
  std::unique_lock lock(mutex_);
  if (await != Await::Nothing) changed_.wait(lock, [&] { return has(await); });
  for (auto at = flying_.begin(); at != flying_.end();) {
    Flying& flying = *at;
    const bool is_last = flying.left == 0;
    auto here = at++;
    if (flying.ended.empty() || (await == Await::Batch && !is_last)) continue;
    Batch& part = taken.emplace_back();
    part.task = flying.batch.task, part.generation = flying.batch.generation, part.is_last = is_last;
    std::ranges::sort(flying.ended);
    for (std::size_t trial : std::exchange(flying.ended, {}))
      part.trials.push_back(std::move(flying.batch.trials[trial]));
    if (!is_last) continue;
    part.problem = flying.batch.problem;
    flying_.erase(here);
  }
  return taken;
}

// ---- on a thread of its own

void FleetRunner::work() {
  constexpr int kPollMs = 1000;
  for (bool is_closed = false; !is_closed;) {
    std::vector<Flying*> started;
    {
      std::lock_guard lock(mutex_);
      started = std::exchange(started_, {});
      is_closed = is_closed_;
    }
    double begin = seconds_now();
    for (Flying* flying : started) launch(*flying);
    if (!places_.empty()) collect();
    if (places_.empty()) {
      pollfd event{wake_, POLLIN, 0};
      if (!is_closed) poll(&event, 1, kPollMs);
    } else {
      if (!fleet_.wait(waiting_, wake_)) fail(fleet_.error());
      profile_.measure += seconds_now() - begin;
    }
    eventfd_t ignored;
    eventfd_read(wake_, &ignored);
  }
}

// Puts a batch into the queue.
void FleetRunner::launch(Flying& flying) {
  show(flying);
  bool is_good = machine_error_.empty() && !waiting_.must_stop() && store_workload(*flying.state, flying.batch.problem);
  const std::vector<std::size_t> failed = flying.failed, places = flying.places;
  std::vector<QueuedTrial> queued = std::move(flying.queued);
  // Behind the last of its trials the batch may be gone.
  for (std::size_t i : failed) {
    Trial& trial = flying.batch.trials[i];
    if (is_good) {
      std::lock_guard lock(mutex_);  // it may set machine_error_
      store(trial);
    }
    if (trial.stored) observe(flying.batch, trial);
    end({&flying, i});
  }
  std::optional<i64> first;
  if (is_good && !places.empty()) first = fleet_.put(std::move(queued), waiting_);
  if (is_good && !places.empty() && !first) fail(fleet_.error());
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (first)
      places_[*first + static_cast<i64>(i)] = {&flying, places[i]};
    else
      end({&flying, places[i]});
  }
}

// What the observer is shown: the counts are those of this thread, which knows of results first.
void FleetRunner::show(const Flying& flying) {
  std::vector<TaskProgress> before = std::exchange(progress_, flying.progress);
  for (std::size_t i = 0; i < before.size(); ++i) {
    progress_[i].trials = before[i].trials, progress_[i].failed = before[i].failed;
    progress_[i].best_seconds = before[i].best_seconds, progress_[i].baseline_seconds = before[i].baseline_seconds;
  }
}

void FleetRunner::collect() {
  if (!machine_error_.empty() || waiting_.must_stop()) return end_all();
  std::map<i64, TrialOutcome> outcomes;
  bool is_good = fleet_.collect(waiting_, [&](i64 number, const TrialOutcome& o) { outcomes[number] = o; });
  take(outcomes);
  if (!is_good) return fail(fleet_.error());
  std::lock_guard lock(mutex_);
  capacity_ = {.machines = static_cast<int>(fleet_.machines()), .trials_per_second = fleet_.trials_per_second()};
}

void FleetRunner::take(const std::map<i64, TrialOutcome>& outcomes) {
  std::vector<i64> ids;
  for (const auto& [number, outcome] : outcomes) {
    if (outcome.fault.empty()) ids.push_back(outcome.record);
  }
  Records records;
  if (!ids.empty()) {
    auto found = fleet_.records(ids, waiting_);
    if (!found) fail(fleet_.error());
    for (Record& record : found.value_or(std::vector<Record>())) records.emplace(record.id, std::move(record));
  }
  for (const auto& [number, outcome] : outcomes) {
    auto at = places_.find(number);
    take_one(at->second, outcome, records);
    end(at->second);
    places_.erase(at);
  }
}

// A trial that ended with a fault is not stored: nothing is known of the candidate.
void FleetRunner::take_one(Place place, const TrialOutcome& outcome, const Records& records) {
  Flying& flying = *place.flying;
  if (!outcome.fault.empty()) {
    ++flying.faults;
    flying.said.try_emplace(outcome.fault, cat(flying.state->task->name, ": ", outcome.fault, " (", outcome.machine,
                                               "): ", outcome.message));
    return;
  }
  Trial& trial = flying.batch.trials[place.trial];
  auto record = records.find(outcome.record);
  if (record == records.end() && (waiting_.must_stop() || !machine_error_.empty())) return;
  std::string why = record == records.end() ? cat("the database has no good record ", outcome.record)
                                            : why_no_result(trial.record, record->second);
  if (!why.empty()) {
    ++flying.faults;
    flying.said.try_emplace(std::string(fault::kWrongRecord),
                            cat(flying.state->task->name, ": ", fault::kWrongRecord, " (", outcome.machine, "): ", why,
                                "; it is passed over"));
    return;
  }
  std::string trace = std::move(trial.record.trace);
  trial.record = record->second;          // two tasks may have the same trial
  trial.record.trace = std::move(trace);  // that it makes the program is known here, of any other it is not
  trial.stored = true;
  observe(flying.batch, trial);
}

void FleetRunner::end(Place place) {
  Flying& flying = *place.flying;
  bool is_last = flying.left == 1;
  if (is_last) {
    for (const auto& [kind, text] : flying.said) observer_.on_message(text);
    // The next batch would end like this one.
    if (!flying.places.empty() && flying.faults == flying.places.size())
      flying.batch.problem = cat("no trial could be measured: ", flying.said.begin()->second);
  }
  std::lock_guard lock(mutex_);
  flying.ended.push_back(place.trial);
  --flying.left;
  changed_.notify_all();
}

// It was stopped, or there is an error: machines have a moment for what they measure.
void FleetRunner::end_all() {
  std::map<i64, TrialOutcome> outcomes;
  fleet_.withdraw(waiting_, [&](i64 number, const TrialOutcome& outcome) { outcomes[number] = outcome; });
  take(outcomes);
  for (const auto& [number, place] : std::exchange(places_, {})) end(place);
}

void FleetRunner::fail(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (machine_error_.empty()) machine_error_ = why;
}

}  // namespace tw
