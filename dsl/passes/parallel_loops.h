// Parallel loops: one level of parallelism, as the kernel ABI has it.
#pragma once
#include "dsl/base/result.h"
#include "dsl/ir/program.h"

namespace tw {

// Pass serialize_inner_parallel. Output: a Parallel loop has an extent over 1, and inside of it are Parallel loops only directly
// (`parallel for i { parallel for j {`); every other one is Serial. Loops bound to GPU threads are rejected.
// `allowed` = false makes all of them Serial.
Result<Program> serialize_inner_parallel(Arena& arena, Program program, bool allowed);

// Pass fuse_parallel_loops. Input: the form above. Output: no Parallel loop inside another; those that were directly inside
// each other are one loop over the product of their extents.
Program fuse_parallel_loops(Arena& arena, Program program);

}  // namespace tw
