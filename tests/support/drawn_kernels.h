// Kernels of a device as the search makes them, without the search.
#pragma once
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "backends/target.h"
#include "dsl/ir/program.h"

namespace tw::test {

struct DrawnKernels {
  std::vector<Kernel> kernels;          // source text with its launches
  std::vector<OwnedProgram> scheduled;  // the programs that they were made from
  std::string rejected;                 // why instructions or postprocessors refused draws, a line each
  std::string not_lowered;              // the same of lowering
};

// So many draws from the space that `set` has for a workload, spread over all of its sketches; `first`: others than
// those from 0 on.
DrawnKernels drawn_kernels(const Program& workload, const std::string& set, const Target& target, int draws,
                           i64 first = 0);
DrawnKernels drawn_kernels(const std::string& use, const std::string& set, const Target& target, int draws);

// A GPU with sm_80.
Target cuda_target();

// The kernel of `use` under a schedule in text, for that GPU; a test failure and an empty kernel where it is refused.
Kernel cuda_kernel(const std::string& use, const std::string& schedule);
Kernel cuda_kernel(const Program& program);  // of one that is scheduled already

}  // namespace tw::test
