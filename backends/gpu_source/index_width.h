// How wide the integers are that a kernel's text computes indices in.
#pragma once
#include "dsl/passes/lower_gpu.h"

namespace tw::gpu {

// Does 32-bit arithmetic do for all of the kernel's loop counters and what is computed of them, intermediate results
// too? Without a proof it does not. Values that come from memory, casts and large constants are 64-bit in the text by
// themselves.
bool fits_int32(const GpuKernel& kernel);

// Is the expression made of loop variables and small constants only, so that its text has the type of the kernel's loop
// variables?
bool is_of_loops(const Expr* e);

}  // namespace tw::gpu
