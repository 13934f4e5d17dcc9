// Parallel loops: one level of parallelism, as the kernel ABI has it.
#pragma once
#include "dsl/ir/program.h"

namespace tw {

// Pass unbind_threads: how a program that was scheduled for a device runs on a processor. Loops over its groups
// (blockIdx) are Parallel, those over threads and virtual threads Serial: a bound loop means what the loop means. What
// groups share and threads keep for themselves lies in memory, and so do registers of several threads.
Program unbind_threads(Arena& arena, Program program);

// Pass serialize_inner_parallel. Output: a Parallel loop has an extent over 1, and inside of it are Parallel loops only
// directly
// (`parallel for i { parallel for j {`); every other one is Serial. `allowed` = false makes all of them Serial.
Program serialize_inner_parallel(Arena& arena, Program program, bool allowed);

// Pass fuse_parallel_loops. Input: the form above. Output: no Parallel loop inside another; those that were directly
// inside each other are one loop over the product of their extents.
Program fuse_parallel_loops(Arena& arena, Program program);

}  // namespace tw
