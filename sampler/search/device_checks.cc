#include "sampler/search/device_checks.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "dsl/schedule/schedule.h"
#include "dsl/text/workload.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

constexpr std::string_view kPath = "sampler/search/device_checks.tw";
constexpr i64 kGroup = 128;                    // work-items
constexpr i64 kMostLanes = i64{256} * kGroup;  // few enough that what they find is read in no time
constexpr i64 kTermsOfLane = 64;               // where there are fewer elements

const WorkloadModule& checks() {
  static const WorkloadModule module = [] {
    Source source{std::string(kPath), std::string(embedded_text(kPath).value_or(""))};
    Diagnostics diagnostics(source);
    WorkloadModule parsed = parse_workloads(source, diagnostics);
    TW_CHECK(!diagnostics.has_errors(), "device_checks.tw has errors; device_checks_test prints them");
    return parsed;
  }();
  return module;
}

i64 lanes_for(i64 count) {
  i64 groups = (count + kGroup * kTermsOfLane - 1) / (kGroup * kTermsOfLane);
  return std::min(kMostLanes, groups * kGroup);
}

// Element-wise stages go where they are used; a work-item for each element of what is left.
Status bind_lanes(Schedule& schedule) {
  std::vector<Str> names;
  for (const Block* block : schedule.state().blocks()) names.push_back(block->name);
  for (Str name : names) {
    TW_TRY(BlockId block, schedule.get_block(name));
    Schedule inlined = schedule.fork();
    if (inlined.compute_inline(block)) {
      schedule = std::move(inlined);
      continue;
    }
    TW_TRY(Loops loops, schedule.get_loops(block));
    Array<i64> factors = schedule.state().arena().list<i64>({Factors::kHole, kGroup});
    TW_TRY(Loops parts, schedule.split(loops[0], {factors}));
    TW_TRY_STATUS(schedule.bind(parts[0], "blockIdx.x"));
    TW_TRY_STATUS(schedule.bind(parts[1], "threadIdx.x"));
  }
  return ok();
}

BuiltKernel build_check(const WorkloadUse& use, const Target& target) {
  Diagnostics diagnostics(*checks().source);
  std::optional<OwnedProgram> made = instantiate(checks(), use.workload, use.arguments, {}, diagnostics);
  TW_CHECK(made, "a kernel that checks results cannot be made");
  Schedule schedule(made->program);
  if (Status bound = bind_lanes(schedule); !bound) return {{}, to_string(bound.rejected())};
  Arena arena(1 << 16);
  Result<LoweredGpuProgram> lowered =
      lower_gpu(arena, schedule.program(), lowering_options(target), gpu_limits(target));
  if (!lowered) return {{}, to_string(lowered.rejected())};
  Result<Kernel> kernel = device_source(*lowered, target, cat("check_", use.workload));
  if (!kernel) return {{}, to_string(kernel.rejected())};
  return loadable({std::move(*kernel), {}}, target);
}

// Tasks have many checks in common, and compiling one for CUDA takes a fifth of a second.
std::optional<Kernel> check_kernel(const WorkloadUse& use, const Target& target) {
  static std::mutex mutex;
  static std::map<std::string, std::optional<Kernel>> known;
  std::lock_guard lock(mutex);
  auto [at, is_new] = known.try_emplace(cat(to_string(use), " ", name_of(target.kind), " ", target.arch));
  if (is_new) at->second = build_check(use, target).kernel;
  return at->second;
}

}  // namespace

std::vector<DeviceCheck> device_checks(const Program& program, const Target& target, const SampledReference* sample) {
  std::vector<DeviceCheck> out;
  i64 all_bytes = 0;
  for (const Param& param : program.params) all_bytes += bytes_of(param.buffer);
  if (all_bytes < kDeviceCheckBytes) return out;
  auto add = [&](DeviceCheckKind kind, const Buffer* of, const char* workload, WorkloadArguments arguments) {
    std::optional<Kernel> kernel = check_kernel({workload, std::move(arguments)}, target);
    if (kernel) out.push_back({kind, std::string(of->name), std::move(*kernel)});
  };
  for (const Param& param : program.params) {
    DType type = param.buffer->dtype;
    i64 bytes = bytes_of(param.buffer), count = bytes / bytes_of(type);
    WorkloadArguments all{{"count", count}, {"lanes", lanes_for(count)}, {"T", type}};
    if (param.role != Role::Output) {
      DType word = bytes % 4 == 0 ? DType::I32 : DType::U8;
      i64 words = bytes / bytes_of(word);
      add(DeviceCheckKind::Same, param.buffer, "same", {{"count", words}, {"lanes", lanes_for(words)}, {"T", word}});
    } else if (!sample) {
      all.push_back({"E", is_float(type) ? DType::F64 : type});
      add(DeviceCheckKind::Compare, param.buffer, "compare", all);
    } else {
      if (is_float(type)) add(DeviceCheckKind::Numbers, param.buffer, "numbers", all);
      auto of = std::ranges::find(sample->samples[0], std::string(param.buffer->name), &OutputSample::name);
      if (of == sample->samples[0].end()) continue;
      add(DeviceCheckKind::Pick, param.buffer, "pick",
          {{"count", count}, {"picked", static_cast<i64>(of->positions.size())}, {"T", type}});
    }
  }
  return out;
}

}  // namespace tw
