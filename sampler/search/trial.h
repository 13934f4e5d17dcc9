// One task's way from a program to a measured kernel: lowering, compiling, the reference kernel, the incumbent.
#pragma once
#include <optional>
#include <string>

#include "backends/backend.h"
#include "backends/interpreter.h"
#include "backends/target.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/program.h"
#include "dsl/passes/lower_gpu.h"
#include "runtime/lists/task_list.h"
#include "runtime/measure/elements.h"
#include "runtime/measure/measurer.h"
#include "runtime/store/record.h"
#include "sampler/search/measured_kernel.h"

namespace tw {

LoweringOptions lowering_options(const Target& target);
// Of a device: this machine, on which its references run.
CodegenTarget codegen_target(const Target& target);
GpuLimits gpu_limits(const Target& target);
struct BuildTimes {
  double lower_seconds = 0, compile_seconds = 0;
};

// Does lowering for the target accept a scheduled program?
Status can_be_lowered(Arena& arena, const Program& program, const Target& target);

// The source of a lowered program in the language of its device.
Result<Kernel> device_source(const LoweredGpuProgram& program, const Target& target, std::string_view symbol);

// Lowers and compiles a scheduled program; for a device it becomes source text, which the worker's driver compiles.
BuiltKernel build_kernel(const Program& program, const Target& target, LlvmCompiler& compiler,
                         BuildTimes* times = nullptr);

// What the target's worker loads. For `cuda` that is machine code: the source is compiled by NVRTC, and refused where
// registers are spilled or ptxas warns (backends/cuda/nvrtc.h). For others, and where there is no kernel, `built` as it
// is.
BuiltKernel loadable(BuiltKernel built, const Target& target);

// The reference kernel: see reference.h.
BuiltKernel build_reference(const Program& program, const Target& target, LlvmCompiler& compiler);

// Opens a task of the measurer, whose data is drawn from `seed`, with the results of the reference kernel; with more
// points than these, and where the measurer takes them, with a sample of the results (sampled_reference.h). Once `stop`
// is true it ends within a moment. `many_kernels`: many will be measured, so that a device gets kernels that compare
// results there (device_checks.h). On failure the error is a sentence about the reference.
TaskStart begin_judged_task(Measurer& measurer, const Program& program, const Target& target, LlvmCompiler& compiler,
                            u64 seed, const std::function<bool()>& stop = {}, bool many_kernels = false);

// What a result is compared with: the workload in f64 and, where it states no tolerance, the variances of rounding
// (dsl/passes/rounding_error.h).
Program judged_program(Arena& arena, const Program& program);

// What counts as equal to the reference beside these variances: the workload's own tolerance, 0 where there are
// variances, and for programs of a form that has none 16 sqrt(n) roundings of the narrowest output, n being the length
// of the longest reduction.
Tolerance tolerance_of(const Program& program);

// A result beside that of the judged program; `variances`: those of its elements, or null.
Comparison judged_result(const HostArray& actual, const HostArray& expected, const HostArray* variances,
                         Tolerance tolerance);

}  // namespace tw
