// Pass device_scopes: every local buffer of a kernel gets the memory that its work-items can share it in.
// Input: Allocs as place_buffers leaves them. Output: inside of a step a buffer belongs to the work-item: Register,
// else Local. Outside, Shared and Global buffers belong to the group: Shared; Global ones that do not fit there any
// more move to scratch memory, with a part for each group. Register and Local ones, of which each work-item uses a part
// of its own, shrink to that part: their indices lose what the threadIdx loops select. Rejects where work-items would
// share such a part.
#pragma once
#include "dsl/passes/lower_gpu.h"
#include "dsl/passes/share_storage.h"

namespace tw {

struct ScopedProgram {
  Program program;
  std::vector<SharedRoom> rooms;       // of shared memory: those of several buffers are for share_storage
  std::vector<SharedPlace> places;     // of its buffers, where some lie over each other
  Array<const Buffer*> group_scratch;  // Global buffers without an Alloc, [groups, ...]: to be places in scratch memory
};
Result<ScopedProgram> device_scopes(Arena& arena, Program program, const GpuLimits& limits);

}  // namespace tw
