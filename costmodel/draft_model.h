// The draft model: an analytic estimate of a scheduled program's run time on a CPU. The search uses it as its first filter and to
// choose the candidate that needs no trial. It orders candidates of one task; its seconds are rough. It never sees a measurement.
#pragma once
#include "costmodel/flat_program.h"
#include "costmodel/store_profile.h"

namespace tw {

// The draft of a program, store by store in program order; for who has their profiles anyway.
class DraftSum {
 public:
  void start();
  void add(const FlatProgram& program, const FlatStore& store, const StoreProfile& profile);
  double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
  std::vector<u32> started_;  // parallel loops
};

// Reuses its memory between calls: one per thread. The result depends on the program and the target only.
class DraftModel {
 public:
  explicit DraftModel(const FeatureTarget& target) : profiler_(target) {}
  // Estimated seconds of one kernel call, > 0. What `prepack` blocks do is outside of the call and costs nothing.
  double seconds(const Program& program);

 private:
  FlatReader reader_;
  Footprints footprints_;
  StoreProfiler profiler_;
  DraftSum sum_;
};

// Seconds of one store, starting threads excluded.
double seconds_of(const StoreProfile& profile);
// Seconds for starting and joining the threads of a parallel loop once.
inline constexpr double kParallelStart = 2e-6;

double draft_seconds(const Program& program, const FeatureTarget& target);

}  // namespace tw
