// ThreadRegisters: how many registers a thread of each kernel needs, in the analytic model (gpu_draft.h).
//
// A thread holds its part of each buffer in registers: the buffer's elements in one thread's loops. Beside them it
// holds what its largest unrolled code loads: the operands of one step of a sum, and up to 32 registers of later steps,
// which compilers load ahead. 24 more are for addresses and counters.
#pragma once
#include <vector>

#include "costmodel/gpu/store_loops.h"

namespace tw {

class ThreadRegisters {
 public:
  // A new program. Then add all stores of its kernels.
  void start(std::size_t kernels, std::size_t buffers);
  void add(const StoreLoops& store);
  // Words of 4 bytes; more than a thread can have, where it spills.
  double of_kernel(u32 kernel) const;

 private:
  double words_of_buffer(const StoreLoops& store, const FlatAccess& access) const;

  std::vector<double> buffers_;   // by kernel: words of the buffers
  std::vector<double> operands_;  // by kernel: words of what unrolled code loads
  std::vector<u8> is_counted_;    // by buffer
};

}  // namespace tw
