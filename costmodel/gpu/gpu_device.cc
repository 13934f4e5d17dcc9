#include "costmodel/gpu/gpu_device.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "dsl/intrinsics/intrinsic.h"

namespace tw {
namespace {

constexpr i64 kRegisterUnit = 256;  // registers are given to warps in such pieces
constexpr i64 kPartitions = 4;      // of a multiprocessor: each has its own registers
constexpr i64 kSharedUnit = 128;

i64 round_up(i64 value, i64 unit) { return (value + unit - 1) / unit * unit; }
i64 warps_of(const BlockNeeds& needs) { return (needs.threads + kWarpLanes - 1) / kWarpLanes; }
i64 registers_of_warp(const BlockNeeds& needs) { return round_up(needs.registers * kWarpLanes, kRegisterUnit); }

}  // namespace

i64 most_registers(const GpuDevice& device, i64 threads) {
  i64 warps = round_up(warps_of({.threads = std::max<i64>(1, threads)}), kPartitions);
  i64 of_warp = device.registers_per_multiprocessor / warps / kRegisterUnit * kRegisterUnit;
  return std::min(device.registers_per_thread, of_warp / kWarpLanes);
}

std::string broken_limit(const GpuDevice& device, const BlockNeeds& needs) {
  if (needs.threads < 1 || needs.threads > device.threads_per_block)
    return cat("a block has ", needs.threads, " threads, ", device.name, " allows ", device.threads_per_block);
  if (needs.registers > device.registers_per_thread)
    return cat("a thread has ", needs.registers, " registers, ", device.name, " allows ", device.registers_per_thread);
  // The launch is checked as if every partition had the same number of warps.
  i64 registers = registers_of_warp(needs) * round_up(warps_of(needs), kPartitions);
  if (registers > device.registers_per_multiprocessor)
    return cat("a block takes ", registers, " registers, ", device.name, " has ", device.registers_per_multiprocessor);
  if (needs.shared_bytes > device.shared_per_block)
    return cat("a block has ", needs.shared_bytes, " bytes of shared memory, ", device.name, " allows ",
               device.shared_per_block);
  return "";
}

int occupancy(const GpuDevice& device, const BlockNeeds& needs) {
  if (!broken_limit(device, needs).empty()) return 0;
  i64 warps = warps_of(needs), blocks = device.blocks_per_multiprocessor;
  blocks = std::min(blocks, device.threads_per_multiprocessor / kWarpLanes / warps);
  if (needs.registers > 0) {
    i64 warps_of_partition = device.registers_per_multiprocessor / kPartitions / registers_of_warp(needs);
    blocks = std::min(blocks, warps_of_partition * kPartitions / warps);
  }
  i64 shared = round_up(needs.shared_bytes + device.shared_reserved_per_block, kSharedUnit);
  if (shared > 0) blocks = std::min(blocks, device.shared_per_multiprocessor / shared);
  return static_cast<int>(blocks);
}

}  // namespace tw
