#include "bench/fleet/virtual_fleet.h"

#include <algorithm>
#include <limits>

namespace tw::bench {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

VirtualFleet::VirtualFleet(const RunnerParts& with, const VirtualMachines& how, Measurer* measurer,
                           std::atomic<bool>& stop, std::vector<VirtualResult>& results)
    : TrialRunner(with),
      how_(how),
      inner_(with, {.beside_the_search = false, .threads = 1}, measurer),
      stop_(stop),
      results_(results),
      free_(static_cast<std::size_t>(how.machines), 0.0) {}

MeasuringCapacity VirtualFleet::capacity() {
  return {.machines = how_.machines, .trials_per_second = how_.machines / how_.trial_seconds};
}

// Called when a batch was found.
void VirtualFleet::begin_builds(Batch&, const TaskState&) { go_on_to(now_ + how_.round_seconds); }

void VirtualFleet::go_on_to(double time) {
  now_ = std::max(now_, time);
  if (first_ >= 0 && now_ - first_ >= how_.seconds) stop_ = true;
}

void VirtualFleet::start(Batch batch, TaskState& state, std::vector<TaskProgress> progress) {
  if (first_ < 0) first_ = now_;
  inner_.start(std::move(batch), state, std::move(progress));
  for (Batch& measured : inner_.take_ended(Await::Batch)) {
    Flying flying;
    for (std::size_t i = 0; i < measured.trials.size(); ++i) {
      auto machine = std::ranges::min_element(free_);
      flying.ends.push_back(*machine = std::max(*machine, now_) + how_.trial_seconds);
    }
    flying.batch = std::move(measured);
    flying_.push_back(std::move(flying));
  }
}

double VirtualFleet::next_end(const Flying& flying) { return *std::ranges::min_element(flying.ends); }

std::vector<Batch> VirtualFleet::take_ended(Await await) {
  double time = kNever;
  for (const Flying& flying : flying_)
    time = std::min(time, await == Await::Batch ? *std::ranges::max_element(flying.ends) : next_end(flying));
  if (await != Await::Nothing && !flying_.empty()) go_on_to(time);
  std::vector<Batch> taken;
  for (Flying& flying : flying_) {
    bool is_last = *std::ranges::max_element(flying.ends) <= now_;
    if (await == Await::Batch && !is_last) continue;
    Batch part;
    part.task = flying.batch.task, part.generation = flying.batch.generation;
    for (std::size_t i = 0; i < flying.ends.size();) {
      if (flying.ends[i] > now_) {
        ++i;
        continue;
      }
      auto at = static_cast<std::ptrdiff_t>(i);
      const Record& record = flying.batch.trials[i].record;
      if (record.ok()) results_.push_back({flying.ends[i] - first_, record.seconds});
      part.trials.push_back(std::move(flying.batch.trials[i]));
      flying.batch.trials.erase(flying.batch.trials.begin() + at);
      flying.ends.erase(flying.ends.begin() + at);
    }
    part.is_last = flying.ends.empty();
    if (part.is_last) part.problem = flying.batch.problem;
    if (!part.trials.empty()) taken.push_back(std::move(part));
  }
  std::erase_if(flying_, [](const Flying& flying) { return flying.ends.empty(); });
  return taken;
}

}  // namespace tw::bench
