// How the work-items of a group combine what they have along a loop (combines_work_items in dsl/analysis/reducer.h),
// and the shared memory that this takes. For device_scopes, which counts it, and the printer, which declares it.
#pragma once
#include "dsl/passes/lower_gpu.h"

namespace tw {

inline constexpr i64 kWarp = 32;  // work-items that can read each other's registers, where GpuLimits::has_shuffles

struct Combining {
  bool by_shuffles = false;  // in warps, and over shared memory from warp to warp; else over shared memory alone
  i64 elements = 0;          // of an array in shared memory for each target; 0 = there is none
};
// `loop` combines; it is directly around its store.
Combining combining_along(const For* loop, const LaunchExtents& extents, bool has_shuffles);

// Bytes of all such arrays of a kernel, each with a place of its own. Loops that are unrolled later count once.
i64 combining_bytes(const Stmt* kernel, const LaunchExtents& extents, bool has_shuffles);

}  // namespace tw
