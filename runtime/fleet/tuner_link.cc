#include "runtime/fleet/tuner_link.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

using std::chrono::milliseconds;

// Between two looks for results, and for a machine.
constexpr milliseconds kBetweenLooks(25), kBetweenQuestions(200);
constexpr double kLookSeconds = 1;    // between two looks at what else is in the queue
constexpr double kLongestLook = 0.2;  // a server that was away is not slow for long
constexpr double kIdleSeconds = 15;   // without a machine that takes a trial: that is said
constexpr double kGraceSeconds = 3;   // for trials that are being measured when the run is stopped

const char* kNoMachine =
    "; start `tracewright measure --database ADDRESS` on a machine that has it, and `--build-for` elsewhere if it does "
    "not compile. Waiting ...";

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
    if (*found) {
      targets_[{target, wanted}] = **found;
      if (!look_around(waiting)) break;
      return **found;
    }
    if (!is_said && seconds_now() - begin > 2)
      waiting.say(cat("no machine ", wanted.empty() ? "" : cat("that is `", wanted, "` "), "measures for `", target,
                      "` yet", kNoMachine)),
          is_said = true;
    if (!queue_.call<Done>(waiting, [&](TrialQueue& queue) { return queue.wait(kBetweenQuestions); })) break;
  }
  return std::nullopt;
}

// ---- trials

std::optional<i64> TunerLink::put(std::vector<QueuedTrial> trials, const Waiting& waiting) {
  if (trials_.empty()) idle_since_ = looked_ = seconds_now(), ended_ = 0;
  std::map<i64, const QueuedTrial*> chosen;
  const i64 first = next_;
  for (QueuedTrial& trial : trials) {
    auto at = trials_.emplace(next_, std::move(trial)).first;
    chosen[next_++] = &at->second;
  }
  if (put_in(chosen, waiting)) return first;
  for (const auto& [number, trial] : chosen) trials_.erase(number);
  return std::nullopt;
}

bool TunerLink::put_in(const std::map<i64, const QueuedTrial*>& trials, const Waiting& waiting) {
  auto is_known = queue_.call<bool>(waiting, [&](TrialQueue& queue) { return queue.beat_tuner(id_); });
  if (!is_known || (!*is_known && !enter(waiting))) return false;
  std::vector<QueuedTrial> chosen;
  for (const auto& [number, trial] : trials) chosen.push_back(*trial);
  const double cost = rate_ > 0 ? busy_ / rate_ : 0;
  auto ids = queue_.call<std::vector<i64>>(waiting, [&](TrialQueue& queue) { return queue.put(id_, chosen, cost); });
  if (!ids) return false;
  auto id = ids->begin();
  for (const auto& [number, trial] : trials) open_.emplace(*id++, number);
  return true;
}

bool TunerLink::collect(const Waiting& waiting, const Ended& ended) {
  if (!take_outcomes(waiting, ended)) return false;
  constexpr double kOfTime = 0.05;  // what looks may take of the tuner's time, and of the server's
  const double begin = seconds_now();
  if (begin - looked_ < std::max(kLookSeconds, look_seconds_ / kOfTime)) return true;
  const bool goes_on = look_around(waiting) && put_lost_ones_again(waiting) && say_if_idle(waiting);
  look_seconds_ = std::min(seconds_now() - begin, kLongestLook);
  return goes_on;
}

bool TunerLink::take_outcomes(const Waiting& waiting, const Ended& ended) {
  auto outcomes =
      queue_.call<std::vector<TrialOutcome>>(waiting, [&](TrialQueue& queue) { return queue.outcomes(id_); });
  if (!outcomes) return false;
  std::vector<i64> ids;
  for (const TrialOutcome& outcome : *outcomes) {
    ids.push_back(outcome.trial);
    faults_ += !outcome.fault.empty();
    auto [begin, end] = open_.equal_range(outcome.trial);
    for (auto at = begin; at != end; ++at) {
      ended(at->second, outcome);
      trials_.erase(at->second);
      ++ended_;
    }
    open_.erase(begin, end);
    idle_since_ = seconds_now();
  }
  return ids.empty() ||
         queue_.call<Done>(waiting, [&](TrialQueue& queue) { return queue.remove_ended(id_, ids); }).has_value();
}

bool TunerLink::wait(const Waiting& waiting, int other) {
  return queue_.call<Done>(waiting, [&](TrialQueue& queue) { return queue.wait(kBetweenLooks, other); }).has_value();
}

std::optional<std::vector<Record>> TunerLink::records(const std::vector<i64>& ids, const Waiting& waiting) {
  return queue_.call<std::vector<Record>>(waiting, [&](TrialQueue& queue) { return queue.records(ids); });
}

// Who measures, and how fast.
bool TunerLink::look_around(const Waiting& waiting) {
  constexpr double kOfTheLast = 0.3;
  auto share = queue_.call<FleetShare>(waiting, [&](TrialQueue& queue) { return queue.share(id_); });
  if (!share) return false;
  machines_ = std::max<i64>(1, (share->machines + share->tuners - 1) / share->tuners);
  const double now = seconds_now();
  if (!trials_.empty() || ended_ > 0) {
    double rate = static_cast<double>(ended_) / std::max(now - looked_, 1e-3), busy = static_cast<double>(share->busy);
    bool is_first = rate_ == 0;
    rate_ = is_first ? rate : rate_ + kOfTheLast * (rate - rate_);
    busy_ = is_first ? busy : busy_ + kOfTheLast * (busy - busy_);
  }
  looked_ = now, ended_ = 0;
  return true;
}

std::vector<i64> TunerLink::open_ids() const {
  std::vector<i64> ids;
  for (auto at = open_.begin(); at != open_.end(); at = open_.upper_bound(at->first)) ids.push_back(at->first);
  return ids;
}

// Where the server was away for long, others have taken the tuner for gone.
bool TunerLink::put_lost_ones_again(const Waiting& waiting) {
  std::vector<i64> ids = open_ids();
  auto count = queue_.call<i64>(waiting, [&](TrialQueue& queue) { return queue.count(id_, ids); });
  if (!count) return false;
  if (*count == static_cast<i64>(ids.size())) return true;
  std::map<i64, const QueuedTrial*> all;
  for (const auto& [number, trial] : trials_) all[number] = &trial;
  open_.clear();
  return put_in(all, waiting);
}

void TunerLink::withdraw(const Waiting& waiting, const Ended& ended) {
  Waiting no_longer{.must_stop = [] { return true; }, .say = waiting.say};
  auto remove = [&](bool leased_too) {
    return queue_.call<Done>(no_longer, [&](TrialQueue& queue) { return queue.remove_trials(id_, leased_too); })
        .has_value();
  };
  double begin = seconds_now();
  bool is_there = remove(/*leased_too=*/false);
  while (is_there && seconds_now() - begin < kGraceSeconds) {
    is_there = take_outcomes(no_longer, ended);
    auto left = queue_.call<i64>(no_longer, [&](TrialQueue& queue) { return queue.count(id_, open_ids()); });
    if (!left || *left == 0) break;
    is_there =
        is_there &&
        queue_.call<Done>(no_longer, [&](TrialQueue& queue) { return queue.wait(milliseconds(200)); }).has_value();
  }
  if (is_there) remove(/*leased_too=*/true);
  trials_.clear();
  open_.clear();
}

std::string why_idle(const FleetStatus& status, i64 tuner) {
  const auto own = std::ranges::find(status.tuners, tuner, &FleetTuner::id);
  if (own == status.tuners.end() || own->leased > 0) return "";
  std::vector<std::string> aside;
  for (const FleetMachine& machine : status.machines) {
    if (!machine.is_gone && std::ranges::any_of(machine.calibrations, &MachineCalibration::is_aside))
      aside.push_back(machine.name);
  }
  std::string text = cat("no machine takes the ", own->queued, " trials in the queue");
  if (!aside.empty())
    text += cat("; set aside, as calibrations differ from those of the class: ", join(aside, ", "),
                " (`tracewright fleet` says more)");
  return text;
}

bool TunerLink::say_if_idle(const Waiting& waiting) {
  if (is_idle_said_ || trials_.empty() || seconds_now() - idle_since_ < kIdleSeconds) return true;
  auto status = queue_.call<FleetStatus>(waiting, [](TrialQueue& queue) { return queue.status(); });
  if (!status) return false;
  const std::string why = why_idle(*status, id_);
  if (!why.empty()) waiting.say(cat(why, kNoMachine)), is_idle_said_ = true;
  return true;
}

bool TunerLink::measure(const std::vector<QueuedTrial>& trials, const Waiting& waiting,
                        const std::function<void(std::size_t, const TrialOutcome&)>& ended) {
  std::optional<i64> first = put(trials, waiting);
  if (!first) return false;
  auto tell = [&](i64 number, const TrialOutcome& outcome) {
    ended(static_cast<std::size_t>(number - *first), outcome);
  };
  for (;;) {
    if (!collect(waiting, tell)) return false;
    if (in_flight() == 0) return true;
    if (waiting.must_stop()) return withdraw(waiting, tell), false;
    if (!wait(waiting)) return false;
  }
}

}  // namespace tw
