// Pass flatten_buffers: memory as the machine has it.
// Input: buffers of any rank, no vectors. Output: every buffer has rank 1 (row-major, padded as its stride rules say)
// and every access one I64 index, a sum whose constant is outermost (`base + 3`); terms of outer loops come first,
// those of loops that will be unrolled or vectorized last, so that copies of an access share all but a constant.
// Buffers keep their ids.
#pragma once
#include "dsl/ir/program.h"

namespace tw {

Program flatten_buffers(Arena& arena, Program program);

}  // namespace tw
