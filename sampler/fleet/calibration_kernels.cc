#include "sampler/fleet/calibration_kernels.h"

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/schedule/state.h"
#include "dsl/text/workload.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

constexpr std::string_view kPath = "sampler/fleet/calibration.tw";
constexpr u64 kSeed = 1;

// A kernel of the calibration: the use of a workload, and its trace.
struct KernelText {
  const char* name;
  const char* use;
  Timing timing;
  const char* trace;
};

// Tiles that fit the registers of all processors: twelve sums of eight floats, six of sixteen. The vectors fill less
// than half of a second cache: with more, it would depend on the pages that a process got how many of them collide.
constexpr KernelText kOfProcessors[] = {
    {"arithmetic", "product(M = 48, N = 64, K = 128)", Timing::Warm, R"(c = get_block("C")
i, j, k = get_loops(c)
i0, i1 = split(i, [_, 6])
j0, j1 = split(j, [_, 16])
reorder([i0, j0, k, i1, j1])
promote(c, 0, k)
unroll(i1)
vectorize(j1)
)"},
    {"caches", "added(N = 16384)", Timing::Warm, R"(y = get_block("Y")
i = get_loops(y)
i0, i1 = split(i, [_, 16])
vectorize(i1)
)"},
    {"memory", "columns(K = 32768, N = 64)", Timing::Cold, R"(y = get_block("Y")
j, k = get_loops(y)
j0, j1 = split(j, [_, 16])
reorder([k, j0, j1])
promote(y, 0, k)
unroll(j0)
vectorize(j1)
)"},
};

constexpr const char *kDeviceProduct = R"(c = get_block("C")
i, j, k = get_loops(c)
i0, i1, i2 = split(i, [_, 8, 4])
j0, j1, j2 = split(j, [_, 16, 4])
reorder([i0, j0, i1, j1, k, i2, j2])
bind(i0, "blockIdx.y")
bind(j0, "blockIdx.x")
bind(i1, "threadIdx.y")
bind(j1, "threadIdx.x")
promote(c, 0, k)
unroll(i2)
vectorize(j2)
)",
                     *kDeviceAdded = R"(y = get_block("Y")
i = get_loops(y)
i0, i1 = split(i, [_, 128])
bind(i0, "blockIdx.x")
bind(i1, "threadIdx.x")
)",
                     *kDeviceColumns = R"(y = get_block("Y")
j, k = get_loops(y)
j0, j1 = split(j, [_, 128])
bind(j0, "blockIdx.x")
bind(j1, "threadIdx.x")
promote(y, 0, k)
)";

constexpr KernelText kOfGpus[] = {
    {"arithmetic", "product(M = 512, N = 512, K = 256)", Timing::Warm, kDeviceProduct},
    {"caches", "added(N = 1048576)", Timing::Warm, kDeviceAdded},
    {"memory", "columns(K = 64, N = 131072)", Timing::Cold, kDeviceColumns},
};
// An OpenCL device that is not said to be a GPU may be a processor, for which these would take too long.
constexpr KernelText kOfOtherDevices[] = {
    {"arithmetic", "product(M = 128, N = 128, K = 128)", Timing::Warm, kDeviceProduct},
    {"caches", "added(N = 65536)", Timing::Warm, kDeviceAdded},
    {"memory", "columns(K = 64, N = 8192)", Timing::Cold, kDeviceColumns},
};

std::span<const KernelText> kernels_for(const Target& target) {
  if (!is_device(target)) return kOfProcessors;
  if (target.kind == TargetKind::OpenCl && target.gpu.empty()) return kOfOtherDevices;
  return kOfGpus;
}

const WorkloadModule& workloads() {
  static const WorkloadModule module = [] {
    Source source{std::string(kPath), std::string(embedded_text(kPath).value_or(""))};
    Diagnostics diagnostics(source);
    WorkloadModule parsed = parse_workloads(source, diagnostics);
    TW_CHECK(!diagnostics.has_errors(), "calibration.tw has errors; calibration_test prints them");
    return parsed;
  }();
  return module;
}

std::optional<OwnedProgram> program_of(const KernelText& kernel, std::string& problem) {
  Source text{"calibration", kernel.use};
  Diagnostics diagnostics(text), inner(*workloads().source);
  std::optional<WorkloadUse> use = parse_use(text, diagnostics);
  std::optional<OwnedProgram> program =
      use ? instantiate(workloads(), use->workload, use->arguments, {}, inner) : std::nullopt;
  if (!program) problem = diagnostics.render() + inner.render();
  return program;
}

// The kernel that the trace gives, or why there is none.
BuiltKernel build(const KernelText& kernel, const Program& program, const Target& target, LlvmCompiler& compiler) {
  Arena arena(1 << 18);
  Source text{"calibration", kernel.trace};
  Diagnostics diagnostics(text);
  std::optional<Trace> trace = parse_schedule(text, diagnostics);
  if (!trace) return {{}, diagnostics.render()};
  State state(arena, program);
  if (Status done = replay(*trace, state, ReplayMode::Strict); !done) return {{}, to_string(done.rejected())};
  return loadable(build_kernel(state.program(), target, compiler), target);
}

// With its reference, which another compiler makes; or why it cannot be had.
std::optional<CalibrationKernel> compile(const KernelText& text, const Target& target, LlvmCompiler& compiler,
                                         const Target& processor, LlvmCompiler& of_processor,
                                         const std::function<bool()>& must_stop, std::string& problem) {
  std::optional<OwnedProgram> program = program_of(text, problem);
  if (!program) return std::nullopt;
  BuiltKernel built = build(text, program->program, target, compiler);
  if (!built.kernel) {
    problem = cat("the kernel `", text.name, "` cannot be built: ", built.problem);
    return std::nullopt;
  }
  std::optional<TaskReference> reference =
      make_reference(program->program, target, processor, of_processor, {.seed = kSeed}, must_stop, problem);
  if (!reference && !problem.empty()) problem = cat("the kernel `", text.name, "`: ", problem);
  if (!reference) return std::nullopt;
  // Machine code for another architecture takes another time.
  std::string name = target.kind == TargetKind::Cuda ? cat(text.name, " ", target.arch) : text.name;
  return CalibrationKernel{std::move(name), text.timing == Timing::Cold, std::move(*reference),
                           std::move(*built.kernel)};
}

}  // namespace

CalibrationKernels compile_calibration(const Target& target, const Target& processor,
                                       const std::function<bool()>& must_stop) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(target)),
                       of_processor = LlvmCompiler::create(codegen_target(processor));
  for (const Result<LlvmCompiler>* each : {&compiler, &of_processor}) {
    if (!*each) return {.kernels = {}, .problem = to_string(each->rejected())};
  }
  CalibrationKernels made;
  for (const KernelText& text : kernels_for(target)) {
    std::optional<CalibrationKernel> kernel =
        compile(text, target, *compiler, processor, *of_processor, must_stop, made.problem);
    if (!kernel) return {.kernels = {}, .problem = std::move(made.problem)};
    made.kernels.push_back(std::move(*kernel));
  }
  return made;
}

}  // namespace tw
