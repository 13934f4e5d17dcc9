// Kernels of a device as the search makes them, without the search.
#pragma once
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "backends/target.h"
#include "dsl/ir/program.h"

namespace tw::test {

struct DrawnKernels {
  std::vector<Kernel> kernels;  // source text with its launches
  std::string rejected;         // why instructions or postprocessors refused draws, a line each
  std::string not_lowered;      // the same of lowering
};

// So many draws from the space that `set` has for `use`, spread over all of its sketches.
DrawnKernels drawn_kernels(const std::string& use, const std::string& set, const Target& target, int draws);

// A GPU with sm_80.
Target cuda_target();

// The kernel of `use` under a schedule in text, for that GPU; a test failure and an empty kernel where it is refused.
Kernel cuda_kernel(const std::string& use, const std::string& schedule);
Kernel cuda_kernel(const Program& program);  // of one that is scheduled already

}  // namespace tw::test
