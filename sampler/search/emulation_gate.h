// EmulationGate: is a CUDA kernel right, as far as that can be known without a GPU? Runs it in the emulator
// (runtime/emulation/emulation.h) on random inputs and compares with the reference result. Used where a task's target
// is `cuda` and there is no device: the search, `replay --check`, `tune --compile-only`. It measures nothing and stores
// nothing. One task, one gate:
//
//   EmulationGate gate(workload_program);              // draws inputs, computes the reference once
//   // kernel: what build_kernel(scheduled, target, compiler) gives for a cuda target
//   EmulationVerdict verdict = gate.check({kernel, scheduled});
//   if (verdict.kind == EmulationVerdict::Wrong) ...   // verdict.message says why, in one sentence
#pragma once
#include "dsl/ir/program.h"
#include "runtime/emulation/emulation.h"

namespace tw {

struct EmulationGateOptions {
  u64 seed = 1;  // of inputs and orders
  int runs = 2;  // orders that are tried, if all groups run
  // Kernels of more multiply-adds than this run some groups only; the outputs are compared where those have written,
  // which must be all that the schedule gives them to write (dsl/passes/group_writes.h). Of a chain of launches (a sum
  // in parts, packed constants) that is the last one; those before it run whole as long as chain_seconds allow it, else
  // nothing is compared.
  double full_points = 2e7;
  i64 max_groups = 3;         // for these: the last one, the first one, and one between them,
  double group_points = 2e8;  // as long as they have no more than this in all (half a minute of processor time)
  double chain_seconds = 20;  // of processor time
  // Workloads of more multiply-adds have no reference result: some of the elements that were written are compared with
  // what the workload says of each alone (backends/element_values.h), as many as take sampled_points (about a second).
  double reference_points = 1e10, sampled_points = 5e6;
  i64 memory_bytes = i64{2} << 30;  // of all arguments; beyond, the verdict is Unknown
  double timeout_seconds = 60;
};

struct EmulationVerdict {
  enum Kind : u8 {
    Right,    // ran without a finding, and what it computed agrees with the reference
    Wrong,    // a finding, or a wrong value
    Unknown,  // not emulated, or not compared: no compiler, too large, or out of time
  };
  Kind kind = Unknown;
  std::string message;     // empty if Right
  EmulationReport report;  // counters: bank conflicts, barriers
  i64 compared = 0;        // output elements
  double max_error = 0;    // of these, largest |actual - expected|
};

// A kernel, and the program that it was made from.
struct ScheduledKernel {
  const Kernel& kernel;
  const Program& scheduled;
};

class EmulationGate {
 public:
  // `workload`: the program before any schedule.
  explicit EmulationGate(const Program& workload, const EmulationGateOptions& options = {});

  // Compiles (about 0.1 to 0.5 s) and runs one kernel.
  EmulationVerdict check(const ScheduledKernel& kernel) const;
  // The same for several kernels of the workload with different symbols, compiled together, which is faster.
  std::vector<EmulationVerdict> check(std::span<const ScheduledKernel> kernels) const;

 private:
  i64 groups_to_run(const Kernel& kernel) const;  // 0 = all
  EmulationVerdict run(const EmulatedKernels& kernels, std::size_t index, const ScheduledKernel& kernel) const;
  EmulationVerdict compare(const NamedArrays& arrays, const EmulationReport& report,
                           const EmulationWrites& writes) const;

  EmulationGateOptions options_;
  OwnedProgram workload_;  // in f64
  double points_;
  Tolerance tolerance_;
  bool is_small_ = true;           // all groups run
  NamedArrays inputs_, expected_;  // expected_: empty = no reference result
  std::string problem_;            // why nothing can be checked
};

EmulationVerdict check_by_emulation(const Program& workload, const ScheduledKernel& kernel,
                                    const EmulationGateOptions& options = {});

}  // namespace tw
