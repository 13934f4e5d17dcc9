#include "costmodel/draft_model.h"

#include <algorithm>
#include <cmath>

namespace tw {
namespace {

constexpr double kClock = 3.2e9;  // Hz; scales all drafts alike
constexpr double kCall = 2e-8;    // seconds of calling the kernel
// seconds_with() adds waiting for near lines to the machine code as squares, and this share of it. Chosen on 5,026
// measured programs (docs/experiments.md).
constexpr double kSeenNear = 0.7;

double issued_in(const StoreProfile& profile) { return std::max(profile.compute, profile.latency); }

double waiting_in(const StoreProfile& profile, double cycles) {
  return std::max(0.0, cycles - issued_in(profile) - profile.overhead);
}

}  // namespace

double seconds_of(const StoreProfile& profile, const MachineRates& rates) {
  double cycles = profile.cycles(rates);
  double waiting = waiting_in(profile, cycles);
  bool from_memory = profile.traffic[2] > 0;
  double waiting_speed_up = from_memory ? std::min(profile.speed_up, rates.memory_speed_up) : profile.speed_up;
  return ((cycles - waiting) / profile.speed_up + waiting / waiting_speed_up) / kClock;
}

void DraftSum::start() {
  seconds_ = kCall;
  cycles_ = issued_ = overhead_ = near_ = far_ = body_runs_ = 0;
  started_.clear();
}

void DraftSum::add(const FlatProgram& program, const FlatStore& store, const StoreProfile& profile) {
  if (store.is_prepack) return;
  seconds_ += seconds_of(profile, rates_);
  issued_ += issued_in(profile);
  overhead_ += profile.overhead;
  body_runs_ += profile.body_runs;
  cycles_ += profile.cycles(rates_);
  near_ += profile.waiting_for_near(rates_);
  far_ += profile.waiting_for_far(rates_);
  if (profile.starts == 0) return;
  u32 p = 0;
  while (program.loop_of(store, p).kind != LoopKind::Parallel) ++p;
  u32 loop = program.chain[store.first_loop + p];
  if (std::find(started_.begin(), started_.end(), loop) != started_.end()) return;
  started_.push_back(loop);
  seconds_ += profile.starts * rates_.parallel_start / kClock;
}

double DraftSum::seconds_with(double code_cycles) const {
  double second =
      cycles_ > 0 ? seconds_ / cycles_ : 1 / kClock;  // of a cycle of one core, where threads share the work
  return (std::hypot(code_cycles, kSeenNear * near_) + overhead_ + far_) * second;
}

const DraftSum& DraftModel::sum(const Program& program) {
  const FlatProgram& flat = reader_.read(program);
  profiler_.start(flat);
  sum_.start();
  for (const FlatStore& store : flat.stores) {
    if (!store.is_prepack) sum_.add(flat, store, profiler_.profile(flat, store, footprints_.of(flat, store)));
  }
  return sum_;
}

double draft_seconds(const Program& program, const FeatureTarget& target) {
  return DraftModel(target).seconds(program);
}

}  // namespace tw
