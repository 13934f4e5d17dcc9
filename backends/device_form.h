// A program lowered for a device as one for the interpreter: kernels one after another, every work-item with its own
// part of private buffers. For `check` and the tests; barriers are not looked at (steps run one after another anyway).
#pragma once
#include "dsl/passes/lower_gpu.h"

namespace tw {

LoweredProgram as_interpreted(Arena& arena, const LoweredGpuProgram& program);

}  // namespace tw
