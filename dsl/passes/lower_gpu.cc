#include "dsl/passes/lower_gpu.h"

#include <algorithm>

#include "dsl/ir/print.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/barriers.h"
#include "dsl/passes/device_scopes.h"
#include "dsl/passes/flatten_buffers.h"
#include "dsl/passes/lower_blocks.h"
#include "dsl/passes/partition_loops.h"
#include "dsl/passes/pipeline.h"
#include "dsl/passes/place_buffers.h"
#include "dsl/passes/register_loops.h"
#include "dsl/passes/skip_identity_terms.h"
#include "dsl/passes/split_entry_points.h"
#include "dsl/passes/split_kernels.h"
#include "dsl/passes/stage_copies.h"
#include "dsl/passes/thread_axes.h"
#include "dsl/passes/unroll_loops.h"
#include "dsl/passes/vectorize_loops.h"
#include "dsl/passes/warp_mma.h"

namespace tw {
namespace {

bool is_written(const Stmt* body, const Buffer* buffer) {
  bool found = false;
  for_each<Store>(body, [&](const Store* store) {
    for (const StoreTarget& target : store->targets) found |= target.buffer == buffer;
  });
  return found;
}

struct GpuLowering {
  Arena& arena;
  LoweringOptions options;
  const GpuLimits& limits;
  std::vector<PassDump>* dumps;

  // `scratch_bytes`: what all kernels share; grows by what this one needs for itself.
  Result<GpuKernel> kernel(SplitKernel split, i64& scratch_bytes) {
    Pipeline at(split.program, dumps);
    TW_TRY_STATUS(at.step("bind_parallel_loops", bind_parallel_loops(arena, at.program())));
    TW_TRY_STATUS(check_combining(at.program()));
    TW_TRY_STATUS(check_apart(arena, at.program()));
    TW_TRY_STATUS(at.step("lower_blocks", lower_blocks(arena, at.program())));
    TW_TRY_STATUS(at.step("bind_threads", bind_threads(arena, at.program(), limits)));
    TW_TRY(PlacedProgram placed, place_buffers(arena, at.program(), options));
    TW_TRY_STATUS(at.step("place_buffers", placed.program));
    TW_TRY_STATUS(at.step("stage_copies", stage_copies(arena, at.program())));
    TW_TRY(ScopedProgram scoped, device_scopes(arena, at.program(), limits));
    for (const Buffer* buffer : scoped.group_scratch)
      split.params.push_back({true, take_scratch(buffer, scratch_bytes)});
    scoped.program.params = with_outputs(scoped.program.params, scoped.group_scratch);
    TW_TRY_STATUS(at.step("device_scopes", scoped.program));
    TW_TRY_STATUS(at.step("unroll_register_loops", unroll_register_loops(arena, at.program())));
    LaunchExtents extents = extents_of(at.program().body);
    TW_TRY_STATUS(at.step("partition_loops", partition_loops(arena, at.program(), options)));
    TW_TRY_STATUS(at.step("flatten_buffers", flatten_buffers(arena, at.program())));
    TW_TRY_STATUS(at.step("share_storage", share_storage(arena, at.program(), scoped.rooms)));
    TW_TRY_STATUS(at.step("vectorize_loops", vectorize_loops(arena, at.program(), options)));
    TW_TRY_STATUS(at.step("unroll_loops", unroll_loops(arena, at.program(), options)));
    const Program& flat = at.program();
    GpuKernel out{.name = split.program.name, .extents = extents, .body = flat.body};
    std::vector<KernelParam> params;
    for (std::size_t i = 0; i < split.params.size(); ++i) {
      const Buffer* buffer = flat.params[i].buffer;
      params.push_back({buffer, split.params[i].is_scratch, split.params[i].at, is_written(flat.body, buffer)});
    }
    out.params = arena.copy(params);
    out.places = arena.copy(scoped.places);
    if (extents.threads_of_group() > 1) out.barriers = arena.copy(steps_behind_barriers(flat.body, out.places));
    return out;
  }

  Array<Param> with_outputs(Array<Param> params, Array<const Buffer*> more) {
    std::vector<Param> out(params.begin(), params.end());
    for (const Buffer* buffer : more) out.push_back({buffer, Role::Output});
    return arena.copy(out);
  }

  Result<Array<GpuKernel>> entry(const Program& entry, i64& scratch_bytes) {
    Pipeline at(entry, dumps);
    TW_TRY_STATUS(at.step("skip_identity_terms", skip_identity_terms(arena, at.program())));
    TW_TRY(SplitKernels split, split_kernels(arena, at.program()));
    std::vector<GpuKernel> kernels;
    for (const SplitKernel& one : split.kernels) {
      i64 bytes = split.scratch_bytes;
      TW_TRY(GpuKernel lowered, kernel(one, bytes));
      scratch_bytes = std::max(scratch_bytes, bytes);
      if (lowered.body) kernels.push_back(lowered);
    }
    return arena.copy(kernels);
  }
};

}  // namespace

Result<LoweredGpuProgram> lower_gpu(Arena& arena, const Program& program, const LoweringOptions& options,
                                    const GpuLimits& limits, std::vector<PassDump>* dumps) {
  TW_TRY_STATUS(check_rounding(program));
  TW_TRY(EntryPoints entries, split_entry_points(arena, program));
  GpuLowering lowering{arena, options, limits, dumps};
  lowering.options.is_device = true;
  LoweredGpuProgram out;
  TW_TRY(out.run, lowering.entry(entries.run, out.scratch_bytes));
  out.run_arguments = arena.copy(lowered_arguments(arena, entries.run, program));
  if (!entries.prepack.body) return out;
  TW_TRY(out.prepack, lowering.entry(entries.prepack, out.scratch_bytes));
  out.prepack_arguments = arena.copy(lowered_arguments(arena, entries.prepack, program));
  return out;
}

}  // namespace tw
