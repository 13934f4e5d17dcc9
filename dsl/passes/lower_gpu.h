// Lowering for devices: a scheduled program becomes kernels, in the one form that OpenCL C and CUDA C are printed from.
// Used by backends/gpu_source and the tests. `-d passes` prints it like the CPU's. It knows no language and no device
// but its limits.
//
// Every top-level loop nest is a kernel; nests run one after another. In a kernel
//   - loops of kind Bind with a blockIdx axis are outermost: one iteration is one work-group;
//   - a loop of kind Bind with a threadIdx axis is a step that all work-items of the group take together; a store, or a
//     serial loop without such loops inside, is one that a single work-item takes. A step is never inside of another
//     one. Steps follow each other in program order; where a later one needs what an earlier one of another work-item
//     did, a barrier stands before it (`barriers`). So running the loops as loops gives the same result, where every
//     work-item keeps its own private buffers;
//   - a step whose innermost threadIdx loop is directly around a store that does not index its result with it is a
//     reduction: its work-items combine their terms (combines_work_items in dsl/analysis/reducer.h);
//   - all else has the shape of LoweredFunction's body: rank 1, no Block, vectors explicit, Register buffers at
//     constant indices.
// An Alloc of scope Shared belongs to the group, of scope Local or Register to the work-item, also where it stands
// outside a step.
#pragma once
#include <array>

#include "dsl/passes/lower.h"

namespace tw {

struct GpuLimits {
  i64 threads = 256;   // of one work-group
  i64 threads_z = 64;  // of these along z: CUDA's limit, and that of many OpenCL devices
  std::array<i64, 3> groups{(i64{1} << 31) - 1, 65535, 65535};  // of the grid along x, y, z; CUDA's, OpenCL has none
  i64 shared_bytes = 32 << 10;                                  // of one work-group, with what alignment adds
  i64 private_bytes = 16 << 10;                                 // of Local buffers of one work-item
  bool has_shuffles = false;  // work-items of a warp read each other's registers (dsl/passes/combining.h)
};

// One pointer that a kernel takes.
struct KernelParam {
  const Buffer* buffer;  // rank 1
  bool is_scratch;
  i64 at;  // index of the entry point's argument, or offset in bytes into scratch memory
  bool is_written;
};

struct LaunchExtents {
  std::array<i64, 3> groups{1, 1, 1}, threads{1, 1, 1};  // x, y, z
  i64 threads_of_group() const { return threads[0] * threads[1] * threads[2]; }
};

// Where a shared buffer lies, where buffers that are not needed at the same time lie over each other (share_storage.h).
struct SharedPlace {
  BufferId buffer;
  i64 at;  // bytes from the beginning of what they share
};

struct GpuKernel {
  Str name;  // of the first block in it; unique in its entry point
  Array<KernelParam> params;
  LaunchExtents extents;
  const Stmt* body = nullptr;
  Array<const Stmt*> barriers;  // statements before which all work-items of the group wait for each other
  Array<SharedPlace> places;    // of all shared buffers with an Alloc; empty: each has memory of its own
};

struct LoweredGpuProgram {
  Array<GpuKernel> run;
  Array<LoweredArgument> run_arguments;
  Array<GpuKernel> prepack;  // empty = none
  Array<LoweredArgument> prepack_arguments;
  i64 scratch_bytes = 0;  // of run and prepack alike
};

Result<LoweredGpuProgram> lower_gpu(Arena& arena, const Program& program, const LoweringOptions& options,
                                    const GpuLimits& limits, std::vector<PassDump>* dumps = nullptr);

}  // namespace tw
