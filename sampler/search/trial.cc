#include "sampler/search/trial.h"

#include <algorithm>
#include <cmath>

#include "backends/cuda/nvrtc.h"
#include "backends/gpu_source/source.h"
#include "dsl/analysis/index_ranges.h"
#include "dsl/analysis/points.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/rounding_error.h"
#include "dsl/passes/widen.h"
#include "sampler/search/device_checks.h"
#include "sampler/search/reference.h"
#include "sampler/search/task_reference.h"

namespace tw {
namespace {

BuiltKernel build_device_kernel(const Program& program, const Target& target, BuildTimes* times) {
  Arena arena(1 << 18);
  double begin = seconds_now();
  Result<LoweredGpuProgram> lowered = lower_gpu(arena, program, lowering_options(target), gpu_limits(target));
  if (!lowered) return {{}, to_string(lowered.rejected())};
  Result<Kernel> kernel = device_source(*lowered, target, "kernel");
  if (!kernel) return {{}, to_string(kernel.rejected())};
  if (times) times->lower_seconds += seconds_now() - begin;
  return {std::move(*kernel), {}};
}

bool has_stated_tolerance(const Program& program) {
  return program.tolerance.absolute != 0 || program.tolerance.relative != 0;
}

double longest_reduction(const Program& program) {
  double longest = 1;
  for_each<Block>(program.body, [&](const Block* block) {
    double length = 1;
    for (const IterVar& iter : block->iters)
      length *= iter.kind == IterKind::R ? static_cast<double>(iter.extent) : 1.0;
    longest = std::max(longest, length);
  });
  return longest;
}

}  // namespace

LoweringOptions lowering_options(const Target& target) {
  LoweringOptions options{.vector_bits = target.vector_bits,
                          .vector_registers = target.vector_registers,
                          .vtcm_bytes = target.vtcm_bytes,
                          .has_lane_masks = has_lane_masks(target),
                          .threads = target.threads};
  // Register tiles, and with them the bodies that are repeated for the ends of tiles, grow with the vector registers.
  if (!is_gpu(target))
    options.max_instructions = std::max<i64>(options.max_instructions, 125 * target.vector_registers);
  return options;
}

CodegenTarget codegen_target(const Target& target) {
  if (is_device(target)) return codegen_target(host_target());
  return {.triple = target.triple, .cpu = target.cpu, .features = target.features, .vector_bits = target.vector_bits};
}

GpuLimits gpu_limits(const Target& target) {
  return {.threads = target.group_threads,
          .shared_bytes = target.shared_bytes,
          .has_shuffles = target.kind == TargetKind::Cuda};
}

Status can_be_lowered(Arena& arena, const Program& program, const Target& target) {
  if (is_device(target)) {
    TW_TRY_STATUS(lower_gpu(arena, program, lowering_options(target), gpu_limits(target)));
  } else {
    TW_TRY_STATUS(lower(arena, program, lowering_options(target)));
  }
  return ok();
}

Result<Kernel> device_source(const LoweredGpuProgram& program, const Target& target, std::string_view symbol) {
  return print_device_source(program, target.kind == TargetKind::Cuda ? SourceLanguage::CudaC : SourceLanguage::OpenClC,
                             symbol, target.shared_bytes, target.arch);
}

BuiltKernel build_kernel(const Program& program, const Target& target, LlvmCompiler& compiler, BuildTimes* times) {
  if (is_device(target)) return build_device_kernel(program, target, times);
  Arena arena(1 << 18);
  double begin = seconds_now();
  Result<LoweredProgram> lowered = lower(arena, program, lowering_options(target));
  if (!lowered) return {{}, to_string(lowered.rejected())};
  double middle = seconds_now();
  Result<Kernel> kernel = compiler.compile(*lowered, "kernel");
  if (!kernel) return {{}, to_string(kernel.rejected())};
  if (times) {
    times->lower_seconds += middle - begin;
    times->compile_seconds += seconds_now() - middle;
  }
  return {std::move(*kernel), {}};
}

BuiltKernel loadable(BuiltKernel built, const Target& target) {
  if (target.kind != TargetKind::Cuda || !built.kernel) return built;
  std::string error;
  std::optional<cuda::Compiled> compiled = cuda::compile(built.kernel->code, target.arch, error);
  if (compiled) error = cuda::why_unfit(*compiled);
  if (!error.empty()) return {{}, error};
  built.kernel->code = std::move(compiled->cubin);
  return built;
}

BuiltKernel build_reference(const Program& program, const Target& target, LlvmCompiler& compiler) {
  Arena arena(1 << 18);
  Schedule schedule = reference_schedule(judged_program(arena, program));
  BuiltKernel built = build_kernel(schedule.program(), is_device(target) ? host_target() : target, compiler);
  if (!built.kernel) return built;
  for (const auto& [buffer, range] : index_ranges(program)) {
    for (KernelArgument& argument : built.kernel->manifest.run) {
      if (argument.name == buffer->name) argument.indices = range;
    }
  }
  return built;
}

TaskStart begin_judged_task(Measurer& measurer, const Program& program, const Target& target, LlvmCompiler& compiler,
                            u64 seed, const std::function<bool()>& stop, bool many_kernels) {
  const ReferenceOptions options{.seed = seed, .may_sample = measurer.takes_samples(), .many_kernels = many_kernels};
  std::string problem;
  const Target& processor = is_device(target) ? host_target() : target;
  std::optional<TaskReference> reference = make_reference(program, target, processor, compiler, options, stop, problem);
  if (reference) return begin_referenced_task(measurer, *reference);
  if (problem.empty()) return {.was_stopped = true};
  return {.status = MeasureStatus::BuildError, .error = problem};
}

Program judged_program(Arena& arena, const Program& program) {
  std::optional<Program> judged =
      has_stated_tolerance(program) ? std::nullopt : with_error_variances(arena, program, kVarianceSuffix);
  return widen_to_f64(arena, judged ? *judged : program);
}

Tolerance tolerance_of(const Program& program) {
  if (has_stated_tolerance(program)) return program.tolerance;
  Arena arena(1 << 18);
  if (with_error_variances(arena, program, kVarianceSuffix)) return {};
  double eps = 0;
  for (const Param& param : program.params) {
    if (param.role == Role::Output) eps = std::max(eps, unit_roundoff(param.buffer->dtype));
  }
  double roundings = 16 * std::sqrt(longest_reduction(program));
  return {.absolute = eps * roundings, .relative = eps * roundings};
}

Comparison judged_result(const HostArray& actual, const HostArray& expected, const HostArray* variances,
                         Tolerance tolerance) {
  auto elements = [](const HostArray& array) {
    return Elements{reinterpret_cast<const char*>(array.bytes.data()), array.dtype, array.elements()};
  };
  return compare(elements(actual), elements(expected), tolerance,
                 variances ? reinterpret_cast<const double*>(variances->bytes.data()) : nullptr);
}

}  // namespace tw
