#include "costmodel/draft_model.h"

#include <algorithm>

namespace tw {
namespace {

constexpr double kClock = 3.2e9;  // Hz; scales all drafts alike
constexpr double kCall = 2e-8;    // seconds of calling the kernel

}  // namespace

double seconds_of(const StoreProfile& profile, const MachineRates& rates) {
  double cycles = profile.cycles(rates);
  double waiting = std::max(0.0, cycles - std::max(profile.compute, profile.latency) - profile.overhead);
  bool from_memory = profile.traffic[2] > 0;
  double waiting_speed_up = from_memory ? std::min(profile.speed_up, rates.memory_speed_up) : profile.speed_up;
  return ((cycles - waiting) / profile.speed_up + waiting / waiting_speed_up) / kClock;
}

void DraftSum::start() {
  seconds_ = kCall;
  started_.clear();
}

void DraftSum::add(const FlatProgram& program, const FlatStore& store, const StoreProfile& profile) {
  if (store.is_prepack) return;
  seconds_ += seconds_of(profile, rates_);
  if (profile.starts == 0) return;
  u32 p = 0;
  while (program.loop_of(store, p).kind != LoopKind::Parallel) ++p;
  u32 loop = program.chain[store.first_loop + p];
  if (std::find(started_.begin(), started_.end(), loop) != started_.end()) return;
  started_.push_back(loop);
  seconds_ += profile.starts * rates_.parallel_start / kClock;
}

double DraftModel::seconds(const Program& program) {
  const FlatProgram& flat = reader_.read(program);
  profiler_.start(flat);
  sum_.start();
  for (const FlatStore& store : flat.stores) {
    if (!store.is_prepack) sum_.add(flat, store, profiler_.profile(flat, store, footprints_.of(flat, store)));
  }
  return sum_.seconds();
}

double draft_seconds(const Program& program, const FeatureTarget& target) {
  return DraftModel(target).seconds(program);
}

}  // namespace tw
