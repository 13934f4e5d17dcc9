#include "runtime/fleet/tuner_link.h"

#include <chrono>
#include <numeric>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

using std::chrono::milliseconds;

// Notifications wake a wait; where one is lost, it ends after so long.
constexpr milliseconds kPoll(1000);
constexpr double kIdleSeconds = 15;  // without a machine that takes a trial: that is said
constexpr double kGraceSeconds = 3;  // for trials that are being measured when the run is stopped

const char* kNoMachine = "; start `tracewright measure --database ADDRESS` on a machine that has it. Waiting ...";

}  // namespace

DatabaseResult<std::unique_ptr<TunerLink>> TunerLink::open(const std::string& address, const std::string& name) {
  auto queue = TrialQueue::open(address);
  if (!queue) return queue.failure();
  auto id = queue->add_tuner(name);
  if (!id) return id.failure();
  std::unique_ptr<TunerLink> link(new TunerLink(std::move(*queue), name));
  link->id_ = *id;
  link->heartbeat_ = std::make_unique<Heartbeat>(
      address, [link = link.get()](TrialQueue& beats) { return beats.beat_tuner(link->id_); });
  return link;
}

TunerLink::TunerLink(TrialQueue queue, std::string name) : queue_(std::move(queue)), name_(std::move(name)) {}

TunerLink::~TunerLink() {
  heartbeat_.reset();
  // Where this fails, the others notice that it is gone.
  Waiting no_longer{.must_stop = [] { return true; }, .say = [](const std::string&) {}};
  queue_.call<Done>(no_longer, [&](TrialQueue& queue) { return queue.remove_tuner(id_); });
}

// The tuner was taken for gone: it becomes a new one.
bool TunerLink::enter(const Waiting& waiting) {
  auto id = queue_.call<i64>(waiting, [&](TrialQueue& queue) { return queue.add_tuner(name_); });
  if (!id) return false;
  id_ = *id;
  for (const auto& [name, target] : targets_) {
    if (!queue_.call<Done>(waiting, [&, &wanted = target](TrialQueue& queue) { return queue.want(id_, wanted); }))
      return false;
  }
  return true;
}

std::optional<MeasuredTarget> TunerLink::machine_for(const std::string& target, const Waiting& waiting,
                                                     const std::string& wanted) {
  if (auto known = targets_.find({target, wanted}); known != targets_.end()) return known->second;
  bool is_said = false;
  double begin = seconds_now();
  while (!waiting.must_stop()) {
    auto is_known = queue_.call<bool>(waiting, [&](TrialQueue& queue) { return queue.beat_tuner(id_); });
    if (!is_known || (!*is_known && !enter(waiting))) break;
    if (!queue_.call<Done>(waiting, [&](TrialQueue& queue) { return queue.want(id_, {target, "", "", wanted}); }))
      break;
    auto found = queue_.call<std::optional<MeasuredTarget>>(
        waiting, [&](TrialQueue& queue) { return queue.found(id_, target, wanted); });
    if (!found) break;
    if (*found) return targets_[{target, wanted}] = **found;
    if (!is_said && seconds_now() - begin > 2)
      waiting.say(cat("no machine ", wanted.empty() ? "" : cat("that is `", wanted, "` "), "measures for `", target,
                      "` yet", kNoMachine)),
          is_said = true;
    if (!queue_.call<Done>(waiting, [&](TrialQueue& queue) { return queue.wait(kPoll); })) break;
  }
  return std::nullopt;
}

bool TunerLink::measure(const std::vector<QueuedTrial>& trials, const Waiting& waiting,
                        const std::function<void(std::size_t, const TrialOutcome&)>& done) {
  open_.clear();
  std::vector<std::size_t> all(trials.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (!put(trials, all, waiting)) return false;
  idle_since_ = seconds_now();
  for (;;) {
    if (!collect(waiting, done)) return false;
    if (open_.empty()) break;
    if (waiting.must_stop()) return withdraw(waiting, done), false;
    if (!put_lost_ones_again(trials, waiting)) return false;
    say_if_idle(waiting);
    if (!queue_.call<Done>(waiting, [&](TrialQueue& queue) { return queue.wait(kPoll); })) return false;
  }
  return queue_.call<Done>(waiting, [&](TrialQueue& queue) { return queue.remove_trials(id_, /*leased_too=*/true); })
      .has_value();
}

bool TunerLink::put(const std::vector<QueuedTrial>& trials, const std::vector<std::size_t>& places,
                    const Waiting& waiting) {
  auto is_known = queue_.call<bool>(waiting, [&](TrialQueue& queue) { return queue.beat_tuner(id_); });
  if (!is_known || (!*is_known && !enter(waiting))) return false;
  std::vector<QueuedTrial> chosen;
  for (std::size_t place : places) chosen.push_back(trials[place]);
  auto ids = queue_.call<std::vector<i64>>(waiting, [&](TrialQueue& queue) { return queue.put(id_, chosen); });
  if (!ids) return false;
  open_.clear();
  for (std::size_t i = 0; i < places.size(); ++i) open_[(*ids)[i]] = places[i];
  return true;
}

std::vector<i64> TunerLink::open_ids() const {
  std::vector<i64> ids;
  for (const auto& [id, place] : open_) ids.push_back(id);
  return ids;
}

bool TunerLink::collect(const Waiting& waiting, const std::function<void(std::size_t, const TrialOutcome&)>& done) {
  auto outcomes =
      queue_.call<std::vector<TrialOutcome>>(waiting, [&](TrialQueue& queue) { return queue.outcomes(id_); });
  if (!outcomes) return false;
  for (const TrialOutcome& outcome : *outcomes) {
    auto at = open_.find(outcome.trial);
    if (at == open_.end()) continue;
    faults_ += !outcome.fault.empty();
    done(at->second, outcome);
    open_.erase(at);
    idle_since_ = seconds_now();
  }
  return true;
}

// Where the server was away for long, others have taken the tuner for gone.
bool TunerLink::put_lost_ones_again(const std::vector<QueuedTrial>& trials, const Waiting& waiting) {
  auto count = queue_.call<i64>(waiting, [&](TrialQueue& queue) { return queue.count(id_, open_ids()); });
  if (!count) return false;
  if (*count == static_cast<i64>(open_.size())) return true;
  std::vector<std::size_t> places;
  for (const auto& [id, place] : open_) places.push_back(place);
  return put(trials, places, waiting);
}

void TunerLink::withdraw(const Waiting& waiting, const std::function<void(std::size_t, const TrialOutcome&)>& done) {
  Waiting no_longer{.must_stop = [] { return true; }, .say = waiting.say};
  if (!queue_.call<Done>(no_longer, [&](TrialQueue& queue) { return queue.remove_trials(id_, /*leased_too=*/false); }))
    return;
  double begin = seconds_now();
  while (seconds_now() - begin < kGraceSeconds) {
    auto left = queue_.call<i64>(no_longer, [&](TrialQueue& queue) { return queue.count(id_, open_ids()); });
    if (!left || *left == 0) break;
    if (!queue_.call<Done>(no_longer, [&](TrialQueue& queue) { return queue.wait(milliseconds(200)); }) ||
        !collect(no_longer, done))
      return;
  }
  if (!queue_.call<Done>(no_longer, [&](TrialQueue& queue) { return queue.remove_trials(id_, /*leased_too=*/true); }))
    return;
}

void TunerLink::say_if_idle(const Waiting& waiting) {
  if (is_idle_said_ || seconds_now() - idle_since_ < kIdleSeconds) return;
  auto status = queue_.call<FleetStatus>(waiting, [](TrialQueue& queue) { return queue.status(); });
  if (!status) return;
  for (const FleetTuner& tuner : status->tuners) {
    if (tuner.id != id_ || tuner.leased > 0) continue;
    waiting.say(cat("no machine takes the ", tuner.queued, " trials in the queue", kNoMachine));
    is_idle_said_ = true;
  }
}

}  // namespace tw
