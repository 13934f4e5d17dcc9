#include "sampler/fleet/calibration.h"

#include <algorithm>

#include "dsl/base/clock.h"
#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/schedule/state.h"
#include "dsl/text/workload.h"

namespace tw {
namespace {

constexpr std::string_view kPath = "sampler/fleet/calibration.tw";
constexpr u64 kSeed = 1;
constexpr std::size_t kLeastRounds = 10;
constexpr double kSteady = 1.01;  // second smallest by smallest time

// A kernel of the calibration: the use of a workload, and its trace.
struct CalibrationKernel {
  const char* name;
  const char* use;
  Timing timing;
  const char* trace;
};

// Tiles that fit the registers of all processors: twelve sums of eight floats, six of sixteen. The vectors fill less
// than half of a second cache: with more, it would depend on the pages that a process got how many of them collide.
constexpr CalibrationKernel kOfProcessors[] = {
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

constexpr CalibrationKernel kOfGpus[] = {
    {"arithmetic", "product(M = 512, N = 512, K = 256)", Timing::Warm, kDeviceProduct},
    {"caches", "added(N = 1048576)", Timing::Warm, kDeviceAdded},
    {"memory", "columns(K = 64, N = 131072)", Timing::Cold, kDeviceColumns},
};
// An OpenCL device that is not said to be a GPU may be a processor, for which these would take too long.
constexpr CalibrationKernel kOfOtherDevices[] = {
    {"arithmetic", "product(M = 128, N = 128, K = 128)", Timing::Warm, kDeviceProduct},
    {"caches", "added(N = 65536)", Timing::Warm, kDeviceAdded},
    {"memory", "columns(K = 64, N = 8192)", Timing::Cold, kDeviceColumns},
};

std::span<const CalibrationKernel> kernels_for(const Target& target) {
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

std::optional<OwnedProgram> program_of(const CalibrationKernel& kernel, std::string& problem) {
  Source text{"calibration", kernel.use};
  Diagnostics diagnostics(text), inner(*workloads().source);
  std::optional<WorkloadUse> use = parse_use(text, diagnostics);
  std::optional<OwnedProgram> program =
      use ? instantiate(workloads(), use->workload, use->arguments, {}, inner) : std::nullopt;
  if (!program) problem = diagnostics.render() + inner.render();
  return program;
}

// The kernel that the trace gives, or why there is none.
BuiltKernel build(const CalibrationKernel& kernel, const Program& program, const Target& target,
                  LlvmCompiler& compiler) {
  Arena arena(1 << 18);
  Source text{"calibration", kernel.trace};
  Diagnostics diagnostics(text);
  std::optional<Trace> trace = parse_schedule(text, diagnostics);
  if (!trace) return {{}, diagnostics.render()};
  State state(arena, program);
  if (Status done = replay(*trace, state, ReplayMode::Strict); !done) return {{}, to_string(done.rejected())};
  return loadable(build_kernel(state.program(), target, compiler), target);
}

// The second smallest, once there are so many.
double time_of(const std::vector<double>& sorted) { return sorted[std::min<std::size_t>(1, sorted.size() - 1)]; }

bool is_steady(const std::vector<double>& sorted) {
  return sorted.size() >= kLeastRounds && sorted[1] <= kSteady * sorted[0];
}

}  // namespace

Calibrator::~Calibrator() {
  for (const Prepared& prepared : prepared_) measurer_.end_task(prepared.task);
}

// Returns what is wrong; "" where it is done, or was stopped.
std::string Calibrator::prepare(const std::function<bool()>& must_stop) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(target_));
  if (!compiler) return to_string(compiler.rejected());
  for (const CalibrationKernel& kernel : kernels_for(target_).subspan(prepared_.size())) {
    std::string problem;
    std::optional<OwnedProgram> program = program_of(kernel, problem);
    if (!program) return problem;
    BuiltKernel built = build(kernel, program->program, target_, *compiler);
    if (!built.kernel) return cat("the kernel `", kernel.name, "` cannot be built: ", built.problem);
    TaskStart start = begin_judged_task(measurer_, program->program, target_, *compiler, kSeed, must_stop);
    if (start.task < 0) return start.was_stopped ? "" : cat("the kernel `", kernel.name, "`: ", start.error);
    // Machine code for another architecture takes another time.
    std::string name = target_.kind == TargetKind::Cuda ? cat(kernel.name, " ", target_.arch) : kernel.name;
    prepared_.push_back({std::move(name), std::move(*program), std::move(*built.kernel), start.task, kernel.timing});
  }
  return "";
}

// Adds one time. Returns what is wrong.
std::string Calibrator::measure(const Prepared& prepared, std::vector<double>& seconds) const {
  MeasureOptions options{.threads = target_.threads, .pairs = 8, .max_pairs = 8, .budget_seconds = 0.05};
  bool is_cold = prepared.timing == Timing::Cold;
  if (is_device(target_))
    options.cold_samples = is_cold ? kColdSamples : 0;
  else
    options.cold_caches = is_cold;
  MeasureResult measured = measurer_.measure(prepared.task, prepared.kernel, options);
  if (measured.was_stopped) return "";
  if (measured.status != MeasureStatus::Ok && measured.status != MeasureStatus::Noisy)
    return cat("the kernel `", prepared.name, "`: ", name_of(measured.status), ": ", measured.message);
  double time = is_device(target_) && is_cold && measured.cold_seconds > 0 ? measured.cold_seconds : measured.seconds;
  seconds.insert(std::ranges::upper_bound(seconds, time), time);
  return "";
}

Calibration Calibrator::run(const std::function<bool()>& must_stop) {
  double begin = seconds_now();
  Calibration result{.error = prepare(must_stop)};
  std::vector<std::vector<double>> seconds(prepared_.size());
  double measuring = seconds_now();
  bool is_over = !result.error.empty() || must_stop();
  while (!is_over) {
    for (std::size_t i = 0; i < prepared_.size() && !must_stop(); ++i) {
      if (result.error.empty()) result.error = measure(prepared_[i], seconds[i]);
    }
    result.is_steady = std::ranges::all_of(seconds, is_steady);
    is_over =
        !result.error.empty() || must_stop() || result.is_steady || seconds_now() - measuring >= kCalibrationSeconds;
  }
  bool is_whole = result.error.empty() && !must_stop() && !seconds.empty();
  for (std::size_t i = 0; is_whole && i < seconds.size(); ++i) {
    if (!seconds[i].empty()) result.times.push_back({prepared_[i].name, time_of(seconds[i])});
  }
  if (result.times.size() != prepared_.size()) result.times.clear();
  result.seconds = seconds_now() - begin;
  return result;
}

}  // namespace tw
