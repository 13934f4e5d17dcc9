// The device functions that emitted CUDA C may define: everything with inline PTX. For tests and the benchmark that
// compare each of them on a device with the body that the emulator uses (bench/gpu/conformance.h). The printer defines
// what a kernel needs.
#pragma once
#include <string>
#include <vector>

#include "dsl/intrinsics/intrinsic.h"

namespace tw {

// Definitions, those that others call first.
std::string cuda_vocabulary();

// A matrix instruction: see mma_function in matrix_functions.h.
struct WarpProduct {
  std::string name;
  const Intrinsic* intrinsic;
};
std::vector<WarpProduct> warp_products();

// The same of four warps: see warpgroup_mma_function there.
struct WarpgroupProduct {
  std::string name;
  const Intrinsic* intrinsic;
  std::vector<bool> across;  // of each operand: does memory run across the sum?
};
std::vector<WarpgroupProduct> warpgroup_products();

}  // namespace tw
