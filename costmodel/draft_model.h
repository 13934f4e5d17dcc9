// The draft model: an analytic estimate of a scheduled program's run time on a CPU. The search uses it as its first
// filter and to choose the candidate that needs no trial. It orders candidates of one task; its seconds are rough. It
// sees no measurement of a kernel, only the machine's rates.
#pragma once
#include "costmodel/flat_program.h"
#include "costmodel/store_profile.h"

namespace tw {

// The draft of a program, store by store in program order; for who has their profiles anyway.
class DraftSum {
 public:
  explicit DraftSum(const MachineRates& rates) : rates_(rates) {}
  void start();
  void add(const FlatProgram& program, const FlatStore& store, const StoreProfile& profile);
  double seconds() const;
  // Cycles of one core that the bodies of loops issue. They follow from the tile and from what is unrolled and
  // vectorized; programs that differ in outer loops only have the same.
  double issued() const { return all_.issued; }
  // How often the bodies run: less where more of a sum is unrolled, which issues the same.
  double body_runs() const { return body_runs_; }
  // seconds() where it is known what the machine code issues: `code_cycles` of one core, LlvmCompiler::cycles().
  double seconds_with(double code_cycles) const;

 private:
  // Cycles of stores whose waiting overlaps: what bodies issue, around loops, waiting for near and for far lines.
  struct Cycles {
    double issued = 0, overhead = 0, near = 0, far = 0;
    Cycles& operator+=(const Cycles& other);
    double all() const { return issued + overhead + seen_waiting(issued, near) + far; }
  };
  void close_nest();

  MachineRates rates_;
  double started_seconds_ = 0;    // of calling and of starting threads
  Cycles all_;                    // of one core
  double cycles_ = 0, time_ = 0;  // of the nests that are complete, on one core and on all threads
  // Stores of one nest of loops: the tile and what writes it out, for instance.
  i64 nest_ = -1;  // its outermost loop
  Cycles nest_cycles_, nest_time_;
  double body_runs_ = 0;
  std::vector<u32> started_;  // parallel loops
};

// Reuses its memory between calls: one per thread. The result depends on the program and the target only.
class DraftModel {
 public:
  explicit DraftModel(const FeatureTarget& target) : profiler_(target), sum_(target.rates) {}
  // Estimated seconds of one kernel call, > 0. What `prepack` blocks do is outside of the call and costs nothing.
  double seconds(const Program& program) { return sum(program).seconds(); }
  // The same with its parts. Valid until the next call.
  const DraftSum& sum(const Program& program);

 private:
  FlatReader reader_;
  Footprints footprints_;
  StoreProfiler profiler_;
  DraftSum sum_;
};

// Seconds of one store, starting threads excluded.
double seconds_of(const StoreProfile& profile, const MachineRates& rates);

double draft_seconds(const Program& program, const FeatureTarget& target);

}  // namespace tw
