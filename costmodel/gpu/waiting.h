// Waiting: the cycles in which a block or a warp waits, in the analytic model (gpu_draft.h). How much of them is hidden
// by others that compute meanwhile, kernel_estimate.h says.
//
// All warps of a block wait together (`KernelEstimate::wait`) in each pass of the serial loops around its thread loops:
// for a barrier of 25 cycles, and for the latency of what they read first, of memory or else of shared memory. What is
// copied n - 1 passes ahead (n stages) has mostly arrived: its latency counts 1 / n^2.
//
// A warp waits by itself (`KernelEstimate::warp_wait`) for what it reads later. In its own loops it waits in one pass
// of four, because loads are issued ahead. Operands of matrix instructions are waited for in each step of their sum,
// unless they are loaded a step ahead (the mark `operands_ahead`). And the additions to one result follow each other,
// each 4 cycles behind the one before: what this takes beyond the time that the warp computes anyway, it waits.
#pragma once
#include "costmodel/gpu/gpu_device.h"
#include "costmodel/gpu/kernel_estimate.h"
#include "costmodel/gpu/store_loops.h"

namespace tw {

// Adds that of a store. `computes`: cycles in which a warp computes it.
void add_waiting(const StoreLoops& store, const GpuDevice& device, double computes, KernelEstimate& kernel);

}  // namespace tw
