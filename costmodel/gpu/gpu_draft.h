// GpuDraft: the draft model for GPUs, an analytic estimate of a scheduled program's run time on a described device
// (gpu_device.h). The search uses it where there is no device to measure on. It puts the candidates of one task in
// order; its seconds are rough. It never sees a measurement, and it knows nothing of the order of instructions, of
// register banks or of power.
//
// Every top-level nest is a kernel. The model goes through the stores of a kernel and adds up what they take. Each part
// of it is a file, whose first lines say what is counted there, and how:
//
//   store_loops.h       what each loop around a store is on the device
//   thread_work.h       what a thread computes
//   requests.h          loads and stores, bank conflicts, wavefronts of shared memory and L1
//   waiting.h           cycles in which a block or a warp waits
//   memory_traffic.h    bytes through L2, and from and to memory
//   thread_registers.h  registers of a thread
//   shared_memory.h     bytes of shared memory of a block
//   kernel_estimate.h   the time of a kernel, from all of these
//
// Two counts are made here. The arithmetic lanes of a multiprocessor do a given number of multiply-adds a cycle, and
// its tensor cores do those of matrix instructions (`KernelEstimate::fma`). Its four schedulers each start one
// instruction of a warp a cycle (`issue`): computations, loads and stores, and three for each pass of a loop that is
// not unrolled.
//
// Constants are guesses but for kPartSector, which is fitted; how requests are served was found by the counters of an
// H100. Four published times of an A100 are met within 10 % (gpu_draft_test). Of random programs on an H100 the ranks
// by this model and by time correlate by 0.89 to 0.99 (gpu_records_test).
#pragma once
#include <vector>

#include "costmodel/flat_program.h"
#include "costmodel/gpu/gpu_device.h"
#include "costmodel/gpu/kernel_estimate.h"
#include "costmodel/gpu/memory_traffic.h"
#include "costmodel/gpu/requests.h"
#include "costmodel/gpu/shared_memory.h"
#include "costmodel/gpu/thread_registers.h"

namespace tw {

// Reuses its memory between calls: one per thread. The result depends on the program and the device only.
class GpuDraft {
 public:
  explicit GpuDraft(const GpuDevice& device) : device_(device) {}
  // Estimated seconds of one run of all kernels, > 0 and finite. What `prepack` blocks do is outside of it and costs
  // nothing. `registers`: of each kernel's threads, where a compiler has said so already; ignored if there is another
  // number of them.
  double seconds(const Program& program, const std::vector<int>& registers = {});
  // Of the last program, in program order.
  const std::vector<KernelEstimate>& kernels() const { return kernels_; }

 private:
  void set_occupancy(u32 kernel);
  void add_store(const StoreLoops& store, u32 variables);

  GpuDevice device_;
  FlatReader reader_;
  std::vector<KernelEstimate> kernels_;
  ThreadRegisters registers_;
  SharedMemory shared_;
  Requests requests_;
  MemoryTraffic traffic_;
};

}  // namespace tw
