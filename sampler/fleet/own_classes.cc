#include "sampler/fleet/own_classes.h"

#include <fmt/core.h>

#include <algorithm>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/store/record.h"

namespace tw {
namespace {

// A class is founded, and a machine set aside, by the last of so many calibrations one behind the other: others may
// have disturbed the first ones.
constexpr int kToFound = 3, kToSetAside = 2;

std::string shown(const CalibrationTimes& times) {
  std::vector<std::string> parts;
  for (const KernelTime& time : times) parts.push_back(fmt::format("{} {:.4g} us", time.kernel, time.seconds * 1e6));
  return join(parts, ", ");
}

}  // namespace

// False: it failed or was stopped; the times are those of before.
bool OwnClasses::measure(const std::string& host, Own& own) {
  Calibration done = own.calibrate(waiting_.must_stop);
  own.at = seconds_now(), own.at_trial = trials_;
  if (done.times.empty()) {
    if (!done.error.empty()) waiting_.say(cat("the calibration of ", machine_of(host), " failed: ", done.error));
    return false;
  }
  ++calibrations_;
  own.times = std::move(done.times);
  return true;
}

void OwnClasses::add(const std::string& host, Calibrate calibrate) {
  Own& own = own_[host];
  own.calibrate = std::move(calibrate);
  measure(host, own);
}

const Classified* OwnClasses::find(const std::string& host) const {
  auto at = own_.find(host);
  return at == own_.end() || at->second.is.number == 0 ? nullptr : &at->second.is;
}

void OwnClasses::take(const std::string& host, Own& own, const Classified& found) {
  const bool is_new = found.number != own.is.number;
  if (is_new)
    waiting_.say(cat(machine_of(host), ": class ", found.number, " of machines of this kind, by ", shown(own.times)));
  if (is_new && own.is.number != 0) ++changes_;
  if (found.is_aside && !own.is.is_aside) {
    ++times_aside_;
    waiting_.say(cat(machine_of(host), " is set aside and gets no trials: ", to_text(found.difference),
                     fmt::format("; it is calibrated again every {:g} s", aside_seconds_)));
  } else if (!found.is_aside && own.is.is_aside && !is_new) {
    waiting_.say(cat(machine_of(host), " agrees with its class again"));
  }
  own.is = found;
}

// Until the queue has an answer to the times at hand, or to those of another calibration.
bool OwnClasses::classify(const std::string& host, Own& own, LastingQueue& queue, i64 machine) {
  const int most = own.is.number == 0 ? kToFound : own.is.is_aside ? 1 : kToSetAside;
  for (int attempt = 1;; ++attempt) {
    auto found = queue.call<Classified>(
        waiting_, [&](TrialQueue& q) { return q.calibrate(machine, host, own.times, /*is_final=*/attempt >= most); });
    if (!found) return false;
    if (found->number != 0) return take(host, own, *found), true;
    if (!measure(host, own)) return !waiting_.must_stop();
  }
}

bool OwnClasses::tell(LastingQueue& queue, i64 machine) {
  for (auto& [host, own] : own_) {
    if (!own.times.empty() && !classify(host, own, queue, machine)) return false;
  }
  return true;
}

bool OwnClasses::is_due(const Own& own) const {
  if (!own.calibrate) return false;
  const bool is_waiting = own.is.number == 0 || own.is.is_aside;
  return is_waiting ? seconds_now() - own.at >= aside_seconds_ : every_ > 0 && trials_ - own.at_trial >= every_;
}

bool OwnClasses::is_due() const {
  return std::ranges::any_of(own_, [&](const auto& one) { return is_due(one.second) || is_untold(one.second); });
}

bool OwnClasses::keep_up(LastingQueue& queue, i64 machine) {
  for (auto& [host, own] : own_) {
    if (waiting_.must_stop()) return false;
    const bool is_due = this->is_due(own);
    if (is_due && !measure(host, own)) continue;
    if ((is_due || is_untold(own)) && !classify(host, own, queue, machine)) return false;
  }
  return true;
}

}  // namespace tw
