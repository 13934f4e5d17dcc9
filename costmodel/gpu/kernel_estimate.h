// What the analytic model of GPUs (gpu_draft.h) counts in one kernel, and the time that it makes of it.
#pragma once
#include <array>
#include <string>

#include "costmodel/gpu/gpu_device.h"

namespace tw {

inline constexpr double kWarp = 32, kSchedulers = 4;  // lanes of a warp; of a multiprocessor

// What the model thinks of one kernel.
struct KernelEstimate {
  std::array<i64, 3> grid{1, 1, 1}, threads{1, 1, 1};
  double registers = 0, shared_bytes = 0;  // of a thread; of a block
  int occupancy = 0;
  double waves = 0;
  double fma = 0, issue = 0, shared = 0, wait = 0;  // cycles of a block
  double warp_wait = 0;                             // cycles in which one warp waits while others need not
  double warp_instructions = 0;                     // of one warp: it issues one a cycle at most
  double l2_bytes = 0, dram_bytes = 0;              // of the kernel
  double seconds = 0;
  i64 blocks() const { return grid[0] * grid[1] * grid[2]; }
  i64 block_threads() const { return threads[0] * threads[1] * threads[2]; }
};

// Its time, from what is counted in it: `waves` and `seconds` (> 0 and finite, huge if it cannot be launched). The formulas stand in
// gpu_draft.h.
void set_seconds(KernelEstimate& kernel, const GpuDevice& device);

// Adds cycles in which warps cannot issue, so many for each of their instructions: what machine code says of the registers that it reads
// at once. `seconds` are as they were until they are set again.
void add_register_stalls(KernelEstimate& kernel, double of_instruction);

// Three lines: the launch, cycles of a block by unit, bytes of the kernel.
std::string to_string(const KernelEstimate& kernel);

}  // namespace tw
