// GpuDevice: an NVIDIA GPU as numbers: limits of a launch, and rates for the analytic model (gpu_draft.h). Read from
// YAML by runtime/lists/device_file.h; costmodel/devices/ holds those that are built in. Used where there is no device
// to ask, and never checked against one. Occupancy is computed here as the driver does.
#pragma once
#include <string>

#include "dsl/base/arena.h"

namespace tw {

struct GpuDevice {
  std::string name;  // "a100"
  std::string arch;  // "sm_80": what machine code is made for
  std::string full_name;
  // The device.
  i64 multiprocessors = 0;
  i64 clock_mhz = 0;
  // Limits of a block and of what lives on a multiprocessor at once. Shared memory in bytes.
  i64 threads_per_block = 1024, threads_per_multiprocessor = 2048, blocks_per_multiprocessor = 32;
  i64 registers_per_multiprocessor = 65536, registers_per_thread = 255;
  i64 shared_per_multiprocessor = 0, shared_per_block = 0;  // the latter if a launch asks for it
  i64 shared_reserved_per_block = 1024;                     // by the driver
  // Memory.
  i64 memory_gb_per_second = 0;  // 10^9 bytes
  i64 l2_bytes = 0;
  i64 l2_bytes_per_cycle = 0;        // of the whole device
  i64 shared_bytes_per_cycle = 128;  // of a multiprocessor; L1 hits alike
  // Multiply-adds per cycle of a multiprocessor.
  i64 f32_per_cycle = 0, f64_per_cycle = 0, tensor_f16_per_cycle = 0, wgmma_f16_per_cycle = 0;
  // Latencies, in cycles and nanoseconds.
  i64 memory_latency = 500, shared_latency = 30, launch_ns = 3000;

  double clock_hz() const { return static_cast<double>(clock_mhz) * 1e6; }
};

// What one block of a kernel takes.
struct BlockNeeds {
  i64 threads = 1;
  i64 registers = 0;     // of a thread
  i64 shared_bytes = 0;  // static and dynamic
};

// How many blocks live on a multiprocessor at once; 0 = not even one, a launch would fail. As cuda_occupancy.h computes
// it.
int occupancy(const GpuDevice& device, const BlockNeeds& needs);

// The most registers of a thread in a block of `threads` threads; compilers that know the size of the block keep to it.
i64 most_registers(const GpuDevice& device, i64 threads);

// Which limit of the device a block breaks, as a sentence, or "".
std::string broken_limit(const GpuDevice& device, const BlockNeeds& needs);

}  // namespace tw
