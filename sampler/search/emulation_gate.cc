#include "sampler/search/emulation_gate.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "backends/element_values.h"
#include "backends/kernel_abi.h"
#include "dsl/analysis/index_ranges.h"
#include "dsl/analysis/points.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/passes/group_writes.h"
#include "runtime/measure/elements.h"
#include "runtime/measure/object_loader.h"
#include "runtime/measure/thread_pool.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

constexpr double kFewest = 16;  // elements of a sample

i64 bytes_of_params(const Program& program) {
  i64 sum = 0;
  for (const Param& param : program.params) sum += elements_of(param.buffer) * bytes_of(param.buffer->dtype);
  return sum;
}

NamedArrays draw_inputs(const Program& program, u64 seed) {
  NamedArrays out;
  std::map<const Buffer*, IndexRange> ranges = index_ranges(program);
  for (const Param& param : program.params) {
    if (param.role == Role::Output) continue;
    HostArray array = HostArray::like(param.buffer);
    fill_input(seed, param.buffer->name, 0, array.dtype, array.elements(), reinterpret_cast<char*>(array.bytes.data()),
               ranges[param.buffer]);
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

// Runs a kernel for processors in this process: for programs of our own, that no schedule has changed. The outputs,
// with all bits set where nothing is written; or why there are none in `problem`.
NamedArrays run_here(const Kernel& kernel, const NamedArrays& inputs, std::string& problem) {
  LoadedObject loaded = load_object(kernel.code, problem);
  const KernelManifest& manifest = kernel.manifest;
  if (!problem.empty() || !manifest.prepack.empty()) return {};
  std::vector<AlignedBytes> memory;
  std::vector<void*> pointers;
  for (const KernelArgument& argument : manifest.run) {
    memory.emplace_back(argument.bytes);
    pointers.push_back(memory.back().data());
    if (argument.role == ArgumentRole::Output)
      std::memset(pointers.back(), 0xff, static_cast<std::size_t>(argument.bytes));
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

NamedArrays run_reference(const Program& workload, const NamedArrays& inputs, std::string& problem) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(host_target()));
  if (!compiler) return problem = to_string(compiler.rejected()), NamedArrays{};
  BuiltKernel reference = build_reference(workload, host_target(), *compiler);
  if (!reference.kernel) return problem = cat("the reference cannot be compiled: ", reference.problem), NamedArrays{};
  return run_here(*reference.kernel, inputs, problem);
}

// For each element of the outputs of a program that group_writes.h gives, the number of the group that writes it, or
// -1. Empty: it is not known.
NamedArrays owners_of(const std::optional<Program>& numbers) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(host_target()));
  if (!numbers || !compiler) return {};
  BuiltKernel built = build_kernel(*numbers, host_target(), *compiler);
  std::string problem;
  return built.kernel ? run_here(*built.kernel, {}, problem) : NamedArrays{};
}

// A sentence about elements of one buffer in scratch memory that a launch has to write and has not; "" if there are
// none. `gaps` are of this launch.
std::string left_out(const KernelLaunch& launch, const ScratchWrites::Place& place, const HostArray& owners,
                     std::span<const EmulationWrites::Gap> gaps) {
  auto numbers = reinterpret_cast<const std::int32_t*>(owners.bytes.data());
  i64 missing = 0, first = -1;
  for (const EmulationWrites::Gap& gap : gaps) {
    i64 begin = std::max<i64>(gap.begin - place.at, 0), end = std::min(gap.end - place.at, place.bytes);
    for (i64 i = begin / place.element_bytes; i * place.element_bytes < end; ++i) {
      if (numbers[i] >= 0 && missing++ == 0) first = i;
    }
  }
  if (missing == 0) return "";
  i64 owned = std::count_if(numbers, numbers + owners.elements(), [](auto number) { return number >= 0; });
  return cat("kernel `", launch.name, "`: does not write ", missing, " of its ", owned, " elements of `", place.name,
             "`, which are for a later kernel; the first one is ", first);
}

// The same for all launches but the last that ran whole. What is not known is not judged: a buffer whose rows are
// padded, or kernels that are not those of the program.
std::string left_out_for_later(const ScheduledKernel& kernel, std::span<const EmulationWrites::Gap> gaps) {
  const std::vector<KernelLaunch>& launches = kernel.kernel.manifest.run_launches;
  if (gaps.empty()) return "";
  Arena arena(1 << 18);
  std::vector<ScratchWrites> writes = scratch_writes(arena, kernel.scheduled);
  if (writes.size() + 1 != launches.size()) return "";
  while (!gaps.empty()) {
    auto k = static_cast<std::size_t>(gaps[0].launch);
    auto of_launch = static_cast<std::size_t>(
        std::count_if(gaps.begin(), gaps.end(), [&](const auto& gap) { return gap.launch == gaps[0].launch; }));
    NamedArrays owners = owners_of(writes[k].numbers);
    for (const ScratchWrites::Place& place : writes[k].places) {
      auto numbers = owners.find(std::string_view(place.name));
      if (numbers == owners.end() || numbers->second.elements() * place.element_bytes != place.bytes) continue;
      std::string found = left_out(launches[k], place, numbers->second, gaps.first(of_launch));
      if (!found.empty()) return found;
    }
    gaps = gaps.subspan(of_launch);
  }
  return "";
}

const std::string& writers_of(const EmulationWrites& writes, std::string_view output) {
  auto found = std::find_if(writes.outputs.begin(), writes.outputs.end(),
                            [&](const EmulationWrites::Output& one) { return one.name == output; });
  TW_CHECK(found != writes.outputs.end(), "an output of a kernel that was emulated is not among what it has written");
  return found->elements;
}

// True if a launch before the last one has an output among its arguments.
bool writes_outputs_early(const KernelManifest& manifest) {
  auto is_output = [&](const KernelLaunch::Pointer& pointer) {
    return !pointer.is_scratch && manifest.run[static_cast<std::size_t>(pointer.at)].role == ArgumentRole::Output;
  };
  return std::any_of(manifest.run_launches.begin(), manifest.run_launches.end() - 1, [&](const KernelLaunch& launch) {
    return std::any_of(launch.pointers.begin(), launch.pointers.end(), is_output);
  });
}

// A sentence about elements that should have been written and were not; "" if there are none.
std::string unwritten(const EmulationWrites& writes) {
  for (const EmulationWrites::Output& output : writes.outputs) {
    i64 count = std::count(output.elements.begin(), output.elements.end(), static_cast<char>(WrittenBy::None));
    if (count > 0)
      return cat("nothing writes ", count, " of the ", output.elements.size(), " elements of `", output.name,
                 "`; the first one is ", output.elements.find(static_cast<char>(WrittenBy::None)));
  }
  return "";
}

// The same for one output and the groups of the last launch that ran. `all_by_last`: no other launch writes to the
// output.
std::string left_out(const KernelLaunch& launch, const EmulationWrites& writes, const std::string& name,
                     const HostArray& owners, bool all_by_last) {
  struct Part {
    i64 owned = 0, missing = 0, first = -1;
  };
  std::map<i64, Part> parts;
  for (i64 group : writes.last_groups) parts[group] = {};
  const std::string& writers = writers_of(writes, name);
  auto numbers = reinterpret_cast<const std::int32_t*>(owners.bytes.data());
  i64 nobodys = 0, first = -1;
  for (i64 i = 0; i < owners.elements(); ++i) {
    if (numbers[i] < 0 && nobodys++ == 0) first = i;
    auto part = parts.find(numbers[i]);
    if (part == parts.end()) continue;
    ++part->second.owned;
    if (writers[static_cast<std::size_t>(i)] == static_cast<char>(WrittenBy::LastLaunch)) continue;
    if (part->second.missing++ == 0) part->second.first = i;
  }
  if (nobodys > 0 && all_by_last)
    return cat("no group writes ", nobodys, " of the ", owners.elements(), " elements of `", name,
               "`; the first one is ", first);
  for (const auto& [group, part] : parts) {
    if (part.missing == 0) continue;
    return cat("kernel `", launch.name, "`, group (", group % launch.groups[0], ", ",
               group / launch.groups[0] % launch.groups[1], ", ", group / launch.groups[0] / launch.groups[1],
               "): does not write ", part.missing, " of its ", part.owned, " elements of `", name,
               "`; the first one is ", part.first);
  }
  return "";
}

// Elements of an output that a kernel has written, and what is expected there.
struct Written {
  HostArray actual, expected, variances;  // without a shape; variances: empty, or one for each element
};

// Calls visit(position) for each element that was written.
template <class Visit>
void for_each_written(const std::string& writers, Visit&& visit) {
  for (std::size_t i = 0; i < writers.size(); ++i) {
    if (writers[i] != static_cast<char>(WrittenBy::None)) visit(static_cast<i64>(i));
  }
}

void append(HostArray& to, const HostArray& from, i64 position) {
  auto begin = from.bytes.begin() + position * bytes_of(from.dtype);
  to.bytes.insert(to.bytes.end(), begin, begin + bytes_of(from.dtype));
}

Written written_part(const HostArray& actual, const HostArray& expected, const HostArray* variances,
                     const std::string& writers) {
  Written out{
      .actual = {.dtype = actual.dtype}, .expected = {.dtype = expected.dtype}, .variances = {.dtype = DType::F64}};
  for_each_written(writers, [&](i64 position) {
    append(out.actual, actual, position);
    append(out.expected, expected, position);
    if (variances) append(out.variances, *variances, position);
  });
  return out;
}

void set_numbers(HostArray& array, const std::vector<double>& numbers) {
  auto bytes = reinterpret_cast<const u8*>(numbers.data());
  array.bytes.assign(bytes, bytes + numbers.size() * sizeof(double));
}

// About `count` of them at random. `variance`: null if the output has none.
Written written_sample(const HostArray& actual, ElementValues& values, const Buffer* output, const Buffer* variance,
                       const std::string& writers, double count) {
  Written out{.actual = {.dtype = actual.dtype}, .expected = {.dtype = DType::F64}, .variances = {.dtype = DType::F64}};
  std::vector<double> expected, variances;
  double written = 0;
  for_each_written(writers, [&](i64) { ++written; });
  Rng rng(0, static_cast<u64>(written));
  for_each_written(writers, [&](i64 position) {
    if (rng.uniform() * written >= count) return;
    std::optional<double> value = values.at(output, position);
    std::optional<double> its_variance = value && variance ? values.at(variance, position) : std::nullopt;
    if (!value || (variance && !its_variance)) return;
    append(out.actual, actual, position);
    expected.push_back(*value);
    if (variance) variances.push_back(*its_variance);
  });
  set_numbers(out.expected, expected);
  set_numbers(out.variances, variances);
  return out;
}

std::string variance_of(const Buffer* output) { return cat(output->name, kVarianceSuffix); }

// The same for all outputs; "" if it is not known what the groups have to write.
std::optional<std::string> left_out(const ScheduledKernel& kernel, const EmulationWrites& writes) {
  Arena arena(1 << 18);
  NamedArrays owners = owners_of(group_writes(arena, kernel.scheduled));
  if (owners.empty()) return std::nullopt;
  const KernelManifest& manifest = kernel.kernel.manifest;
  for (const auto& [name, numbers] : owners) {
    std::string found = left_out(manifest.run_launches.back(), writes, name, numbers, !writes_outputs_early(manifest));
    if (!found.empty()) return found;
  }
  return left_out_for_later(kernel, writes.gaps);
}

EmulationVerdict not_compared(const EmulationReport& report) {
  return {EmulationVerdict::Unknown, "it ran without a finding, but is too large for its values to be compared",
          report};
}

}  // namespace

EmulationGate::EmulationGate(const Program& workload, const EmulationGateOptions& options)
    : options_(options), workload_(clone(workload)), points_(points_of(workload)), tolerance_(tolerance_of(workload)) {
  workload_.program = judged_program(*workload_.arena, workload);
  is_small_ = points_ <= options.full_points;
  if (bytes_of_params(workload) > options.memory_bytes) {
    problem_ = cat("its arguments take ", bytes_of_params(workload) >> 20, " MiB, more than are emulated");
    return;
  }
  inputs_ = draw_inputs(workload, options.seed);
  if (points_ <= options.reference_points) expected_ = run_reference(workload, inputs_, problem_);
}

EmulationVerdict EmulationGate::check(const ScheduledKernel& kernel) const {
  return check(std::span<const ScheduledKernel>(&kernel, 1))[0];
}

std::vector<EmulationVerdict> EmulationGate::check(std::span<const ScheduledKernel> kernels) const {
  std::vector<EmulationVerdict> out(kernels.size());
  for (EmulationVerdict& verdict : out) verdict.message = problem_;
  if (!problem_.empty()) return out;
  EmulationReport report;
  std::vector<const Kernel*> sources;
  for (const ScheduledKernel& kernel : kernels) sources.push_back(&kernel.kernel);
  std::unique_ptr<EmulatedKernels> compiled = EmulatedKernels::compile(sources, report);
  bool is_one_wrong = !compiled && report.status == EmulationStatus::BuildError && kernels.size() > 1;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (compiled)
      out[i] = run(*compiled, i, kernels[i]);
    else if (is_one_wrong)
      out[i] = check(kernels[i]);
    else
      out[i] = {report.status == EmulationStatus::Unavailable ? EmulationVerdict::Unknown : EmulationVerdict::Wrong,
                report.message, report};
  }
  return out;
}

// As if the launch with the fewest did all the work: no more than there is time for, and less where another one does.
i64 EmulationGate::groups_to_run(const Kernel& kernel) const {
  if (is_small_) return 0;
  double fewest = std::numeric_limits<double>::infinity();
  for (const KernelLaunch& launch : kernel.manifest.run_launches)
    fewest = std::min(fewest, static_cast<double>(launch.group_count()));
  return static_cast<i64>(
      std::max(1.0, std::min(options_.group_points / points_ * fewest, static_cast<double>(options_.max_groups))));
}

EmulationVerdict EmulationGate::run(const EmulatedKernels& kernels, std::size_t index,
                                    const ScheduledKernel& checked) const {
  const Kernel& kernel = checked.kernel;
  NamedArrays arrays = inputs_;
  EmulationWrites writes;
  EmulationReport report = kernels.run(index, arrays,
                                       {.seed = options_.seed,
                                        .runs = is_small_ ? options_.runs : 1,
                                        .max_groups = groups_to_run(kernel),
                                        .chain_seconds = options_.chain_seconds,
                                        .timeout_seconds = options_.timeout_seconds},
                                       &writes);
  if (report.status == EmulationStatus::Ok) {
    std::optional<std::string> missing = report.is_complete ? unwritten(writes) : left_out(checked, writes);
    if (!missing)
      return {EmulationVerdict::Unknown,
              "it ran without a finding, but it is not known which elements its groups have to write", report};
    if (!missing->empty()) return {EmulationVerdict::Wrong, *missing, report};
    // Groups that have not run leave there what an earlier launch wrote.
    bool is_clear = report.is_complete || !writes_outputs_early(kernel.manifest);
    return is_clear ? compare(arrays, report, writes) : not_compared(report);
  }
  bool says_nothing =
      report.status == EmulationStatus::Unavailable || (report.status == EmulationStatus::Timeout && !is_small_);
  return {says_nothing ? EmulationVerdict::Unknown : EmulationVerdict::Wrong,
          cat(name_of(report.status), ": ", report.message), report};
}

// What some groups of the last launch compute may rest on what an earlier one has left out: then nothing can be
// compared.
EmulationVerdict EmulationGate::compare(const NamedArrays& arrays, const EmulationReport& report,
                                        const EmulationWrites& writes) const {
  if (!report.is_chain_complete) return not_compared(report);
  EmulationVerdict verdict{EmulationVerdict::Right, "", report};
  const Array<Param>& params = workload_.program.params;
  std::map<std::string, const Buffer*, std::less<>> buffers;
  std::vector<const HostArray*> arguments;
  for (const Param& param : params) {
    std::string_view name = param.buffer->name;
    buffers[std::string(name)] = param.buffer;
    auto found = arrays.find(name);
    bool is_needed = !name.ends_with(kVarianceSuffix);
    if (is_needed && found == arrays.end())
      return {EmulationVerdict::Wrong, cat("the kernel has no argument `", name, "`"), report};
    arguments.push_back(found == arrays.end() ? nullptr : &found->second);
  }
  ElementValues values(workload_.program, arguments);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Buffer* output = params[i].buffer;
    if (params[i].role != Role::Output || !arguments[i]) continue;
    auto variance = buffers.find(variance_of(output));
    auto reference = expected_.find(output->name), its_variances = expected_.find(variance_of(output));
    const std::string& writers = writers_of(writes, output->name);
    double sampled = std::max(kFewest, options_.sampled_points / (points_ / static_cast<double>(elements_of(output))));
    Written part = reference == expected_.end()
                       ? written_sample(*arguments[i], values, output,
                                        variance == buffers.end() ? nullptr : variance->second, writers, sampled)
                       : written_part(*arguments[i], reference->second,
                                      its_variances == expected_.end() ? nullptr : &its_variances->second, writers);
    Comparison result =
        judged_result(part.actual, part.expected, part.variances.bytes.empty() ? nullptr : &part.variances, tolerance_);
    verdict.compared += part.actual.elements();
    verdict.max_error = std::max(verdict.max_error, result.max_error);
    if (result.is_right()) continue;
    verdict.kind = EmulationVerdict::Wrong;
    verdict.message =
        cat("wrong result in `", output->name, "`: ", difference_text(result, part.actual.elements(), "the first one"));
    return verdict;
  }
  return verdict.compared > 0 ? verdict : not_compared(report);
}

EmulationVerdict check_by_emulation(const Program& workload, const ScheduledKernel& kernel,
                                    const EmulationGateOptions& options) {
  return EmulationGate(workload, options).check(kernel);
}

}  // namespace tw
