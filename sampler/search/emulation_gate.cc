#include "sampler/search/emulation_gate.h"

#include <cstring>

#include "backends/kernel_abi.h"
#include "dsl/analysis/points.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "runtime/object_loader.h"
#include "runtime/thread_pool.h"
#include "runtime/worker/elements.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

i64 bytes_of_params(const Program& program) {
  i64 sum = 0;
  for (const Param& param : program.params) sum += elements_of(param.buffer) * bytes_of(param.buffer->dtype);
  return sum;
}

NamedArrays draw_inputs(const Program& program, u64 seed) {
  NamedArrays out;
  for (const Param& param : program.params) {
    if (param.role == Role::Output) continue;
    HostArray array = HostArray::like(param.buffer);
    fill_input(seed, param.buffer->name, 0, array.dtype, array.elements(), reinterpret_cast<char*>(array.bytes.data()));
    out[std::string(param.buffer->name)] = std::move(array);
  }
  return out;
}

// Memory as kernels want it.
class AlignedBytes {
 public:
  explicit AlignedBytes(i64 bytes) : memory_(static_cast<std::size_t>(bytes) + TW_ALIGNMENT) {}
  char* data() {
    u64 address = reinterpret_cast<u64>(memory_.data());
    return memory_.data() + (TW_ALIGNMENT - address % TW_ALIGNMENT) % TW_ALIGNMENT;
  }

 private:
  std::vector<char> memory_;
};

// Runs the reference in this process: it is our own unscheduled program. The outputs, or why there are none in
// `problem`.
NamedArrays run_reference(const Program& workload, const NamedArrays& inputs, std::string& problem) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(host_target()));
  if (!compiler) return problem = to_string(compiler.rejected()), NamedArrays{};
  BuiltKernel reference = build_reference(workload, host_target(), *compiler);
  if (!reference.kernel) return problem = cat("the reference cannot be compiled: ", reference.problem), NamedArrays{};
  LoadedObject loaded = load_object(reference.kernel->code, problem);
  const KernelManifest& manifest = reference.kernel->manifest;
  if (!problem.empty() || !manifest.prepack.empty()) return {};
  std::vector<AlignedBytes> memory;
  std::vector<void*> pointers;
  for (const KernelArgument& argument : manifest.run) {
    memory.emplace_back(argument.bytes);
    pointers.push_back(memory.back().data());
    if (auto input = inputs.find(argument.name); input != inputs.end())
      std::memcpy(pointers.back(), input->second.bytes.data(), input->second.bytes.size());
  }
  std::unique_ptr<tw_pool, decltype(&tw_pool_destroy)> pool(tw_pool_create(usable_threads(), nullptr), tw_pool_destroy);
  AlignedBytes scratch(manifest.scratch_bytes(pool ? tw_pool_threads(pool.get()) : 1));
  loaded.run(manifest.symbol)(pointers.data(), scratch.data(), pool ? tw_pool_run : nullptr, pool.get());
  NamedArrays out;
  for (std::size_t i = 0; i < manifest.run.size(); ++i) {
    const KernelArgument& argument = manifest.run[i];
    if (argument.role != ArgumentRole::Output) continue;
    HostArray array = HostArray::zeros(argument.dtype, argument.shape);
    std::memcpy(array.bytes.data(), pointers[i], array.bytes.size());
    out[argument.name] = std::move(array);
  }
  return out;
}

// Elements that do not hold the pattern that outputs begin with, and what is expected there.
struct Written {
  std::vector<char> actual, expected;
  i64 count = 0;
};

Written written_part(const HostArray& actual, const HostArray& expected, bool is_complete) {
  Written out;
  auto size = static_cast<std::size_t>(bytes_of(actual.dtype)),
       expected_size = static_cast<std::size_t>(bytes_of(expected.dtype));
  const char *a = reinterpret_cast<const char*>(actual.bytes.data()),
             *e = reinterpret_cast<const char*>(expected.bytes.data());
  const std::string pattern(size, static_cast<char>(0xff));
  for (i64 i = 0; i < actual.elements(); ++i, a += size, e += expected_size) {
    if (!is_complete && std::memcmp(a, pattern.data(), size) == 0) continue;
    out.actual.insert(out.actual.end(), a, a + size);
    out.expected.insert(out.expected.end(), e, e + expected_size);
    ++out.count;
  }
  return out;
}

}  // namespace

EmulationGate::EmulationGate(const Program& workload, const EmulationGateOptions& options)
    : options_(options), tolerance_(tolerance_of(workload)) {
  double points = points_of(workload);
  is_small_ = points <= options.full_points;
  if (bytes_of_params(workload) > options.memory_bytes) {
    problem_ = cat("its arguments take ", bytes_of_params(workload) >> 20, " MiB, more than are emulated");
    return;
  }
  inputs_ = draw_inputs(workload, options.seed);
  if (points <= options.reference_points) expected_ = run_reference(workload, inputs_, problem_);
}

EmulationVerdict EmulationGate::check(const Kernel& kernel) const {
  const Kernel* one = &kernel;
  return check(std::span<const Kernel* const>(&one, 1))[0];
}

std::vector<EmulationVerdict> EmulationGate::check(std::span<const Kernel* const> kernels) const {
  std::vector<EmulationVerdict> out(kernels.size());
  for (EmulationVerdict& verdict : out) verdict.message = problem_;
  if (!problem_.empty()) return out;
  EmulationReport report;
  std::unique_ptr<EmulatedKernels> compiled = EmulatedKernels::compile(kernels, report);
  bool is_one_wrong = !compiled && report.status == EmulationStatus::BuildError && kernels.size() > 1;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (compiled)
      out[i] = run(*compiled, i);
    else if (is_one_wrong)
      out[i] = check(*kernels[i]);
    else
      out[i] = {report.status == EmulationStatus::Unavailable ? EmulationVerdict::Unknown : EmulationVerdict::Wrong,
                report.message, report};
  }
  return out;
}

EmulationVerdict EmulationGate::run(const EmulatedKernels& kernels, std::size_t index) const {
  NamedArrays arrays = inputs_;
  EmulationReport report = kernels.run(index, arrays,
                                       {.seed = options_.seed,
                                        .runs = is_small_ ? options_.runs : 1,
                                        .max_groups = is_small_ ? 0 : options_.max_groups,
                                        .chain_seconds = options_.chain_seconds,
                                        .timeout_seconds = options_.timeout_seconds});
  if (report.status == EmulationStatus::Ok) return compare(arrays, report);
  bool says_nothing =
      report.status == EmulationStatus::Unavailable || (report.status == EmulationStatus::Timeout && !is_small_);
  return {says_nothing ? EmulationVerdict::Unknown : EmulationVerdict::Wrong,
          cat(name_of(report.status), ": ", report.message), report};
}

// What some groups of the last launch compute may rest on what an earlier one has left out: then nothing can be compared.
EmulationVerdict EmulationGate::compare(const NamedArrays& arrays, const EmulationReport& report) const {
  const EmulationVerdict nothing{EmulationVerdict::Unknown, "it ran without a finding, but is too large for its values to be compared", report};
  if (!report.is_chain_complete) return nothing;
  EmulationVerdict verdict{EmulationVerdict::Right, "", report};
  for (const auto& [name, expected] : expected_) {
    auto found = arrays.find(name);
    if (found == arrays.end()) return {EmulationVerdict::Wrong, cat("the kernel has no output `", name, "`"), report};
    const HostArray& actual = found->second;
    Written part = written_part(actual, expected, report.is_complete);
    Comparison result = tw::compare({part.actual.data(), actual.dtype, part.count},
                                    {part.expected.data(), expected.dtype, part.count}, tolerance_);
    verdict.compared += part.count;
    verdict.max_error = std::max(verdict.max_error, result.max_error);
    if (result.wrong == 0) continue;
    verdict.kind = EmulationVerdict::Wrong;
    verdict.message = cat("wrong result: ", result.wrong, " of ", part.count, " elements of `", name,
                          "` are wrong; the first one is ", result.actual, " and should be ", result.expected);
    return verdict;
  }
  return verdict.compared > 0 ? verdict : nothing;
}

EmulationVerdict check_by_emulation(const Program& workload, const Kernel& kernel,
                                    const EmulationGateOptions& options) {
  return EmulationGate(workload, options).check(kernel);
}

}  // namespace tw
