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

// By which waiting is divided where threads share the work.
double waiting_speed_up(const StoreProfile& profile, const MachineRates& rates) {
  bool from_memory = profile.traffic[2] > 0;
  return from_memory ? std::min(profile.speed_up, rates.memory_speed_up) : profile.speed_up;
}

}  // namespace

double seconds_of(const StoreProfile& profile, const MachineRates& rates) {
  double cycles = profile.cycles(rates), work = issued_in(profile) + profile.overhead;
  double waiting = std::max(0.0, cycles - work);
  return ((cycles - waiting) / profile.speed_up + waiting / waiting_speed_up(profile, rates)) / kClock;
}

DraftSum::Cycles& DraftSum::Cycles::operator+=(const Cycles& other) {
  issued += other.issued, overhead += other.overhead, near += other.near, far += other.far;
  return *this;
}

void DraftSum::start() {
  started_seconds_ = kCall;
  all_ = nest_cycles_ = nest_time_ = {};
  cycles_ = time_ = body_runs_ = 0;
  nest_ = -1;
  started_.clear();
}

void DraftSum::close_nest() {
  cycles_ += nest_cycles_.all(), time_ += nest_time_.all();
  nest_cycles_ = nest_time_ = {};
}

void DraftSum::add(const FlatProgram& program, const FlatStore& store, const StoreProfile& profile) {
  i64 nest = store.depth > 0 ? i64{program.chain[store.first_loop]} : -1;
  if (nest < 0 || nest != nest_) close_nest();
  nest_ = nest;
  Cycles cycles{issued_in(profile), profile.overhead, profile.waiting_for_near(rates_),
                profile.waiting_for_far(rates_)};
  double faster = profile.speed_up, comes_faster = waiting_speed_up(profile, rates_);
  nest_cycles_ += cycles, all_ += cycles;
  nest_time_ +=
      {cycles.issued / faster, cycles.overhead / faster, cycles.near / comes_faster, cycles.far / comes_faster};
  body_runs_ += profile.body_runs;
  if (profile.starts == 0) return;
  u32 p = 0;
  while (!program.loop_of(store, p).is_shared()) ++p;
  u32 loop = program.chain[store.first_loop + p];
  if (std::find(started_.begin(), started_.end(), loop) != started_.end()) return;
  started_.push_back(loop);
  started_seconds_ += profile.starts * rates_.parallel_start / kClock;
}

double DraftSum::seconds() const { return started_seconds_ + (time_ + nest_time_.all()) / kClock; }

double DraftSum::seconds_with(double code_cycles) const {
  double cycles = cycles_ + nest_cycles_.all();
  // How long one core's cycle counts when threads share the work.
  double second = cycles > 0 ? seconds() / cycles : 1 / kClock;
  return (std::hypot(code_cycles, kSeenNear * all_.near) + all_.overhead + all_.far) * second;
}

const DraftSum& DraftModel::sum(const Program& program) {
  const FlatProgram& flat = reader_.read(program);
  profiler_.start(flat);
  sum_.start();
  for (const FlatStore& store : flat.stores)
    sum_.add(flat, store, profiler_.profile(flat, store, footprints_.of(flat, store)));
  return sum_;
}

double draft_seconds(const Program& program, const FeatureTarget& target) {
  return DraftModel(target).seconds(program);
}

}  // namespace tw
