// What memory of this machine a process may have: asked before data is made, for what the system kills for want of memory says nothing.
#pragma once
#include "dsl/base/arena.h"

namespace tw {

// Bytes that a process which is started now may fill: what is free or can be freed, within the limits of control groups and of
// `ulimit -v` (of which it gets half, for the worker maps its data twice).
i64 free_memory_bytes();

// How many processes the system has killed so far for want of memory; 0 where it does not say.
i64 processes_killed_for_memory();

}  // namespace tw
