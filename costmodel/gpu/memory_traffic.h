// MemoryTraffic: the bytes that a kernel moves through the second cache (L2), and from and to memory (DRAM), in the
// analytic model (gpu_draft.h). Everything moves in sectors of 32 bytes.
//
// L2 gets what L1 does not keep (`KernelEstimate::l2_bytes`). Of a block, L1 keeps what is touched inside of the
// outermost serial loop whose data fits into it. Each pass of the loops around that one brings the data anew, unless
// these loops go through it once. Stores pass through L1: each of their requests counts in whole sectors. DeepGEMM
// ranks its tiles by such traffic.
//
// Memory moves each byte once where all of it fits into L2 (`KernelEstimate::dram_bytes`). Otherwise each wave of
// blocks moves what it touches, once for all of its blocks. Blocks are numbered along x first, so the order of blocks
// (rasterization) decides what the blocks of a wave share.
#pragma once
#include <vector>

#include "costmodel/gpu/gpu_device.h"
#include "costmodel/gpu/kernel_estimate.h"
#include "costmodel/gpu/requests.h"
#include "costmodel/gpu/store_loops.h"

namespace tw {

class MemoryTraffic {
 public:
  // Adds that of a store to `kernel`, whose occupancy and shared memory are known. `requests`: the store was added to
  // these last.
  void add(const StoreLoops& store, const GpuDevice& device, const Requests& requests, KernelEstimate& kernel);

 private:
  struct Access {
    const FlatAccess* access;
    double bytes;  // of a block, through L2
  };
  void find_accesses(const StoreLoops& store);
  u32 first_fitting(const StoreLoops& store, double l1_bytes) const;
  void measure_block(const StoreLoops& store, double l1_bytes);

  std::vector<Access> accesses_;  // to global memory, of the store at hand
};

}  // namespace tw
