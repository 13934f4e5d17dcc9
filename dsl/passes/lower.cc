#include "dsl/passes/lower.h"

#include "dsl/ir/walk.h"
#include "dsl/passes/check_intrinsics.h"
#include "dsl/passes/flatten_buffers.h"
#include "dsl/passes/lower_blocks.h"
#include "dsl/passes/parallel_loops.h"
#include "dsl/passes/partition_loops.h"
#include "dsl/passes/pipeline.h"
#include "dsl/passes/place_buffers.h"
#include "dsl/passes/register_loops.h"
#include "dsl/passes/skip_identity_terms.h"
#include "dsl/passes/split_entry_points.h"
#include "dsl/passes/unroll_loops.h"
#include "dsl/passes/vectorize_loops.h"

namespace tw {
namespace {

struct LoweredEntry {
  LoweredFunction function;
  i64 shared_bytes, worker_bytes;
};

Result<LoweredEntry> lower_entry(Arena& arena, const Program& entry, bool is_run, const LoweringOptions& options,
                                 std::vector<PassDump>* dumps) {
  Pipeline at(entry, dumps);
  TW_TRY_STATUS(at.step("unbind_threads", unbind_threads(arena, at.program())));
  TW_TRY_STATUS(at.step("skip_identity_terms", skip_identity_terms(arena, at.program())));
  TW_TRY_STATUS(at.step("lower_blocks", lower_blocks(arena, at.program())));
  TW_TRY_STATUS(at.step("serialize_inner_parallel", serialize_inner_parallel(arena, at.program(), is_run)));
  TW_TRY(PlacedProgram placed, place_buffers(arena, at.program(), options));
  TW_TRY_STATUS(at.step("place_buffers", placed.program));
  TW_TRY_STATUS(at.step("unroll_register_loops", unroll_register_loops(arena, at.program())));
  TW_TRY_STATUS(at.step("partition_loops", partition_loops(arena, at.program(), options)));
  TW_TRY_STATUS(at.step("fuse_parallel_loops", fuse_parallel_loops(arena, at.program())));
  // A buffer that was placed between two parallel loops keeps them apart.
  TW_TRY_STATUS(at.step("serialize_inner_parallel", serialize_inner_parallel(arena, at.program(), is_run)));
  TW_TRY_STATUS(at.step("flatten_buffers", flatten_buffers(arena, at.program())));
  TW_TRY_STATUS(at.step("vectorize_loops", vectorize_loops(arena, at.program(), options)));
  TW_TRY_STATUS(at.step("unroll_loops", unroll_loops(arena, at.program(), options)));
  TW_TRY_STATUS(check_intrinsics(arena, at.program().body));
  const Program& flat = at.program();
  LoweredEntry out{{.body = flat.body}, placed.shared_bytes, placed.worker_bytes};
  std::vector<Placement> arguments, scratch;
  for (const Param& param : flat.params)
    arguments.push_back({param.buffer, Place::Argument, static_cast<i64>(arguments.size())});
  for (std::size_t i = 0; i < flat.locals.size(); ++i) {
    scratch.push_back({flat.locals[i], placed.slots[i].place, placed.slots[i].offset});
  }
  out.function.arguments = arena.copy(arguments);
  out.function.scratch = arena.copy(scratch);
  return out;
}

bool has_parallel_loop(const Stmt* body) {
  bool found = false;
  for_each<For>(body, [&](const For* loop) { found |= loop->loop_kind == LoopKind::Parallel; });
  return found;
}

}  // namespace

std::vector<LoweredArgument> lowered_arguments(Arena& arena, const Program& entry, const Program& original) {
  std::vector<LoweredArgument> out;
  for (const Param& param : entry.params) {
    bool is_original = is_param(original, param.buffer);
    // What prepack makes is opaque to others: padded rows are counted, not described.
    bool is_padded = !param.buffer->stride_rules.empty();
    out.push_back({.name = param.buffer->name,
                   .is_output = param.role == Role::Output,
                   .is_packed = !is_original,
                   .is_constant = is_original && param.role == Role::Constant,
                   .dtype = param.buffer->dtype,
                   .shape = is_padded ? arena.list<i64>({stored_elements_of(param.buffer)}) : param.buffer->shape});
  }
  return out;
}

Result<LoweredProgram> lower(Arena& arena, const Program& program, const LoweringOptions& options,
                             std::vector<PassDump>* dumps) {
  TW_TRY(EntryPoints entries, split_entry_points(arena, program));
  LoweredProgram out;
  TW_TRY(LoweredEntry run, lower_entry(arena, entries.run, true, options, dumps));
  out.run = run.function;
  out.run_arguments = arena.copy(lowered_arguments(arena, entries.run, program));
  out.scratch_shared_bytes = run.shared_bytes;
  out.scratch_worker_bytes = run.worker_bytes;
  out.parallel = has_parallel_loop(run.function.body);
  if (!entries.prepack.body) return out;
  TW_TRY(LoweredEntry prepack, lower_entry(arena, entries.prepack, false, options, dumps));
  out.prepack = prepack.function;
  out.prepack_arguments = arena.copy(lowered_arguments(arena, entries.prepack, program));
  return out;
}

}  // namespace tw
