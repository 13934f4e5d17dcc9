// Pass place_buffers: every local buffer gets its smallest size and its place.
// Input: no Block, locals of full size. Output: a local has the size of the region that is touched under the loops
// which all its accesses share, and indices relative to it. Register buffers and small ones are an Alloc inside these
// loops; the others stay in `locals` and have a slot in scratch memory. Parameters do not change. Slots whose lifetimes
// do not meet share memory. Those of scope Vtcm lie behind the others, and are counted: nothing here asks a machine for
// that memory.
#pragma once
#include "dsl/base/result.h"
#include "dsl/ir/program.h"
#include "dsl/passes/lower.h"

namespace tw {

struct ScratchSlot {
  Place place;  // SharedScratch, or WorkerScratch if only one iteration of a parallel loop sees the buffer
  i64 offset;   // in bytes, a multiple of 64
};
struct PlacedProgram {
  Program program;
  std::vector<ScratchSlot> slots;  // one per local
  i64 shared_bytes = 0, worker_bytes = 0;
  i64 vtcm_bytes = 0;  // of both, in scope Vtcm: all threads together
};

// For a device every local becomes an Alloc: device_scopes says where it lives.
Result<PlacedProgram> place_buffers(Arena& arena, Program program, const LoweringOptions& options);

}  // namespace tw
