// Where the work-items of a group must wait for each other. Input: the body of a kernel with several work-items to a
// group. A step touches memory that work-items share (Shared and Global). Before a step that touches what an earlier
// one since the last barrier wrote, or writes what an earlier one read, stands a barrier; a serial loop around steps is
// gone through twice, so that steps of its next iteration count as later ones. In a loop whose copies are staged
// (stage_copies.h) it stands before the body.
#pragma once
#include "dsl/passes/lower_gpu.h"

namespace tw {

// The steps, in no order, each once. `places`: of buffers that lie over each other (GpuKernel::places).
std::vector<const Stmt*> steps_behind_barriers(const Stmt* kernel, Array<SharedPlace> places = {});

}  // namespace tw
