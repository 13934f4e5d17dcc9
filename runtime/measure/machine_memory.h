// How much memory a process may take. It is asked beforehand, because a process that the system kills when memory runs
// out cannot say so.
#pragma once
#include "dsl/base/arena.h"

namespace tw {

// Bytes that a process which is started now may fill: what is free or can be freed, within the limits of control groups
// and of `ulimit -v` (of which it gets half, for the worker maps its data twice).
i64 free_memory_bytes();

// How many processes the system has killed so far because memory ran out; 0 where that is not known.
i64 processes_killed_for_memory();

}  // namespace tw
