// What a thread of a GPU computes for a store, in simple instructions, as compilers leave it, in the analytic model
// (gpu_draft.h). What a loop does not change is computed outside of it, and of unrolled code what is the same is
// computed once. Loads, stores and indices are not in it; of functions it has what their machine code takes. A copy
// computes nothing but its tests, where padding begins: one for all that one load brings, for padding has all of it or
// none.
#pragma once
#include "costmodel/gpu/store_loops.h"

namespace tw {

// For all runs of the store by one thread. Conversions of matrix instructions' operands are part of these.
double thread_work(const StoreLoops& store);

}  // namespace tw
