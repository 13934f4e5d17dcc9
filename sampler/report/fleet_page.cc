#include "sampler/report/fleet_page.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <functional>
#include <utility>

#include "dsl/base/text.h"
#include "sampler/report/page.h"

namespace tw {
namespace {

using boost::json::array;
using boost::json::object;

array to_json(const std::vector<std::string>& texts) { return array(texts.begin(), texts.end()); }

array to_json(const std::vector<FleetFault>& faults) {
  array out;
  for (const FleetFault& fault : faults)
    out.push_back(
        object{{"kind", fault.kind}, {"machine", fault.machine}, {"count", fault.count}, {"message", fault.message}});
  return out;
}

object to_json(const FleetMachine& machine) {
  return {{"name", machine.name},
          {"host", machine.host},
          {"version", machine.version},
          {"targets", to_json(split(machine.targets, '\n'))},
          {"memory_bytes", machine.memory_bytes},
          {"measures", to_json(machine.measures)},
          {"good", machine.counts.good},
          {"failed", machine.counts.failed},
          {"faults", machine.counts.faults},
          {"lost", machine.counts.lost},
          {"late", machine.counts.late},
          {"repeated", machine.counts.repeated},
          {"leased", machine.leased},
          {"trials_per_second", machine.trials_per_second},
          {"heard_seconds_ago", machine.heartbeat_age},
          {"gone", machine.is_gone}};
}

object to_json(const FleetTuner& tuner) {
  array tasks;
  for (const QueuedTask& task : tuner.tasks)
    tasks.push_back(
        object{{"name", task.task}, {"target", task.target}, {"queued", task.queued}, {"leased", task.leased}});
  return {{"name", tuner.name},
          {"queued", tuner.queued},
          {"leased", tuner.leased},
          {"done", tuner.done},
          {"tasks", tasks},
          {"heard_seconds_ago", tuner.heartbeat_age},
          {"waiting", to_json(tuner.waiting)}};
}

template <class T>
void keep_first(std::vector<T>& values, std::size_t most) {
  if (values.size() > most) values.erase(values.begin() + static_cast<std::ptrdiff_t>(most), values.end());
}

void shorten(std::vector<std::string>& texts, std::size_t most, std::size_t bytes) {
  keep_first(texts, most);
  for (std::string& text : texts) text = clean_text(text, bytes);
}

// What a page shows of it.
FleetStatus within(FleetStatus status, const FleetLimits& limits) {
  std::ranges::stable_sort(status.machines, [](const FleetMachine& a, const FleetMachine& b) {
    return std::pair(a.is_gone, -a.trials_per_second) < std::pair(b.is_gone, -b.trials_per_second);
  });
  keep_first(status.machines, limits.machines);
  for (FleetMachine& machine : status.machines) {
    for (std::string* text : {&machine.name, &machine.host, &machine.version})
      *text = clean_text(*text, limits.name_bytes);
    std::vector<std::string> targets = split(machine.targets, '\n');
    shorten(targets, limits.targets_of_a_machine, limits.name_bytes);
    machine.targets = join(targets, "\n");
    shorten(machine.measures, limits.targets_of_a_machine, limits.name_bytes);
  }
  keep_first(status.tuners, limits.tuners);
  for (FleetTuner& tuner : status.tuners) {
    tuner.name = clean_text(tuner.name, limits.name_bytes);
    shorten(tuner.waiting, limits.targets_of_a_machine, limits.name_bytes);
    keep_first(tuner.tasks, limits.tasks_of_a_tuner);
    for (QueuedTask& task : tuner.tasks) {
      task.task = clean_text(task.task, limits.name_bytes), task.target = clean_text(task.target, limits.name_bytes);
    }
  }
  for (auto* faults : {&status.faults, &status.failures}) {
    std::ranges::stable_sort(*faults, std::greater(), &FleetFault::count);
    keep_first(*faults, limits.failures);
    for (FleetFault& fault : *faults) {
      fault.machine = clean_text(fault.machine, limits.name_bytes);
      fault.message = clean_text(fault.message, limits.message_bytes);
    }
  }
  return status;
}

// What is shown where no script runs.
std::string plain_tables(const FleetStatus& status) {
  std::vector<std::vector<std::string>> machines, tuners, failures;
  for (const FleetMachine& machine : status.machines)
    machines.push_back({machine.name, machine.is_gone ? "gone" : join(machine.measures, ", "),
                        std::to_string(machine.counts.good), std::to_string(machine.counts.failed),
                        std::to_string(machine.counts.faults), machine.host});
  for (const FleetTuner& tuner : status.tuners)
    tuners.push_back({tuner.name, std::to_string(tuner.queued), std::to_string(tuner.leased)});
  for (const auto* list : {&status.faults, &status.failures}) {
    for (const FleetFault& fault : *list)
      failures.push_back({fault.machine, fault.kind, std::to_string(fault.count), fault.message});
  }
  return cat("<p>The charts of this page need JavaScript.</p>\n",
             plain_table({"machine", "measures", "good", "failed", "faults", "host"}, machines),
             plain_table({"tuner", "queued", "leased"}, tuners),
             plain_table({"machine", "failure", "times", "the last one"}, failures));
}

}  // namespace

FleetSample sample_of(const FleetStatus& status) {
  FleetSample sample{.at = now_ms(), .measured = status.measured};
  for (const FleetTuner& tuner : status.tuners) sample.queued += tuner.queued, sample.leased += tuner.leased;
  sample.machines = std::ranges::count(status.machines, false, &FleetMachine::is_gone);
  return sample;
}

void FleetHistory::add(const FleetSample& sample) {
  // The latest one gives way, unless it is one of those that are kept.
  if (!samples_.empty() && (seen_ - 1) % step_ != 0) samples_.pop_back();
  samples_.push_back(sample);
  ++seen_;
  if (samples_.size() <= kMostSamples) return;
  step_ *= 2;
  std::vector<FleetSample> kept;
  for (std::size_t i = 0; i < samples_.size(); i += 2) kept.push_back(samples_[i]);
  if (samples_.size() % 2 == 0) kept.push_back(samples_.back());
  samples_ = std::move(kept);
}

object to_json(const FleetStatus& status, i64 at) {
  array machines, tuners;
  for (const FleetMachine& machine : status.machines) machines.push_back(to_json(machine));
  for (const FleetTuner& tuner : status.tuners) tuners.push_back(to_json(tuner));
  return {{"created_ms", at}, {"measured", status.measured},      {"machines", machines},
          {"tuners", tuners}, {"faults", to_json(status.faults)}, {"failures", to_json(status.failures)}};
}

std::string fleet_page(const FleetView& view, const FleetLimits& limits) {
  i64 now = now_ms();
  object data = to_json(view.curves);
  array samples;
  for (const FleetSample& one : view.history.samples())
    samples.push_back(array{one.at, one.measured, one.queued, one.leased, one.machines});
  FleetStatus shown = within(view.status, limits);
  data["address"] = view.address;
  data["created_ms"] = now;
  data["refresh_ms"] = static_cast<i64>(view.refresh_seconds * 1000);
  data["problem"] = view.problem;
  data["samples"] = samples;
  data["fleet"] = to_json(shown, now);
  data["machines"] = view.status.machines.size();
  data["gone"] = std::ranges::count(view.status.machines, true, &FleetMachine::is_gone);
  data["tuners"] = view.status.tuners.size();
  return to_html({.title = "tracewright fleet",
                  .script = "fleet.js",
                  .data = std::move(data),
                  .plain = plain_tables(shown),
                  .refresh_seconds = view.refresh_seconds});
}

}  // namespace tw
