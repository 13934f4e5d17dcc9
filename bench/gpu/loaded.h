// A kernel of ours on a device, bound to the arrays of a problem and to memory of its own for packed operands and
// scratch.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "backends/device.h"
#include "bench/gpu/problem.h"

namespace tw::gpu_bench {

struct Loaded {
  std::map<std::string, std::unique_ptr<device::Memory>> packed;
  std::unique_ptr<device::Memory> scratch;
  std::unique_ptr<device::LoadedKernel> kernel;
};

// `kernel` holds what the device takes: machine code for CUDA, source for OpenCL. Null with why in `error`.
std::unique_ptr<Loaded> load(device::Device& device, const Kernel& kernel, Problem& problem, std::string& error);

}  // namespace tw::gpu_bench
