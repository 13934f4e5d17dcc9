// What the analytic model of GPUs (gpu_draft.h) counts in one kernel, and the time that it makes of it.
//
// The shape is that of Hong and Kim (ISCA 2009): some warps compute while others wait. In cycles of a multiprocessor:
//
//   1. Work of a block. Arithmetic (`fma`), schedulers (`issue`), and shared memory with L1 (`shared`) work at the same
//      time, but not perfectly: the busiest of them counts, and 0.2 of the others.
//   2. A block alone. Its warps are dealt to the 4 schedulers of a multiprocessor, each of which has a quarter of the
//      arithmetic. What a warp waits for by itself (`warp_wait`) is hidden by the other warps of its scheduler. What
//      all warps wait for together (`wait`) is hidden by none. A block takes no less than the instructions of one
//      warp.
//   3. A multiprocessor. The busiest one gets (blocks / multiprocessors) blocks, rounded up. Their work adds up, and
//      while a block waits, those beside it compute: so many at once as its occupancy says. It takes no less than all
//      waves of blocks one after the other, each as long as a block alone.
//   4. What is hidden. Where n warps or blocks each wait w cycles for every c cycles that they compute, all of them
//      wait at some moments. If they waited at random, these would be the idle time of a closed queue (the machine
//      repairman's problem). They are more regular, so half of this time counts.
//
// In seconds: the launch, the longest of memory, L2 and multiprocessors, and 0.05 of the other two: of two kernels that
// wait for memory, the one that does less beside it is better. Registers beyond those of a thread are spilled, which
// makes all of it slower. The constants 0.2, 0.05 and the half are guesses.
#pragma once
#include <array>
#include <string>

#include "costmodel/gpu/gpu_device.h"

namespace tw {

inline constexpr double kSchedulers = 4;  // of a multiprocessor

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

// Its time, from what is counted in it: `waves` and `seconds` (> 0 and finite, huge if it cannot be launched).
void set_seconds(KernelEstimate& kernel, const GpuDevice& device);

// Adds cycles in which warps cannot issue, so many for each of their instructions: what machine code says of the
// registers that it reads at once. `seconds` are as they were until they are set again.
void add_register_stalls(KernelEstimate& kernel, double of_instruction);

// Three lines: the launch, cycles of a block by unit, bytes of the kernel.
std::string to_string(const KernelEstimate& kernel);

}  // namespace tw
