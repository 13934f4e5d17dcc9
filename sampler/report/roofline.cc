#include "sampler/report/roofline.h"

#include <algorithm>
#include <set>

#include "dsl/analysis/points.h"
#include "dsl/analysis/region.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "runtime/lists/device_file.h"
#include "sampler/search/tune.h"

namespace tw {
namespace {

// How many elements all accesses of a buffer reach at most.
double accesses_to(const Program& program, const Buffer* buffer, AccessKind kind) {
  double sum = 0;
  for_each<Block>(program.body, [&](const Block* block) {
    double inside = 1;
    for (const For* loop : loops_inside(block)) inside *= static_cast<double>(loop->extent);
    for (const Access& access : accesses_of(block)) {
      if (access.buffer == buffer && access.kind == kind) sum += points_of(block) * inside;
    }
  });
  return sum;
}

std::string size_name(double bytes) {
  double kibibytes = bytes / 1024;
  return kibibytes < 1024 ? cat(static_cast<i64>(kibibytes), " KiB") : cat(static_cast<i64>(kibibytes / 1024), " MiB");
}

double peak_of(const Roof& roof, DType type) {
  if (type == DType::F32) return roof.f32;
  if (type == DType::F64) return roof.f64;
  return type == DType::F16 || type == DType::BF16 ? roof.half : 0;
}

}  // namespace

double touched_bytes(const Program& program) {
  Arena arena;
  double sum = 0;
  for (const Param& param : program.params) {
    AccessKind kind = param.role == Role::Output ? AccessKind::Write : AccessKind::Read;
    std::optional<Region> box = region_of(arena, program.body, param.buffer, kind, {});
    if (!box) continue;
    double elements = 1;
    for (const Range& range : box->dims) elements *= static_cast<double>(range.extent);
    sum += std::min(elements, accesses_to(program, param.buffer, kind)) * bytes_of(param.buffer->dtype);
  }
  return sum;
}

Work work_of(const Program& program) {
  Work work{count_flops(program), touched_bytes(program), DType::I64};
  std::set<DType> types;
  for (const Param& param : program.params) {
    if (is_float(param.buffer->dtype)) types.insert(param.buffer->dtype);
  }
  if (types.size() == 1) work.type = *types.begin();
  return work;
}

Roof processor_roof(const MachineRoofs& measured, const Target& target, std::string machine, std::string source) {
  Roof roof{.machine = std::move(machine), .target = to_string(target), .source = std::move(source)};
  roof.f32 = measured.peak(target.vector_bits, target.threads);
  roof.f64 = roof.f32 / 2;
  for (std::size_t i = 0; i < measured.levels.size(); ++i) {
    bool is_memory = i + 1 == measured.levels.size();
    roof.levels.push_back({is_memory ? "memory" : size_name(measured.levels[i].bytes), measured.levels[i].bytes,
                           measured.bandwidth(i, target.threads)});
  }
  return roof;
}

Roof described_roof(const Target& target, std::string machine) {
  Roof roof{.machine = std::move(machine), .target = to_string(target)};
  std::string errors;
  std::optional<GpuDevice> device = is_gpu(target) ? device_of(target, errors) : std::nullopt;
  if (!device) return roof.source = "unknown: the target names no device that is described", roof;
  roof.source = cat("the description `", device->name, "`, not measured");
  double cycles = static_cast<double>(device->multiprocessors) * device->clock_hz();
  roof.f32 = 2 * static_cast<double>(device->f32_per_cycle) * cycles;
  roof.f64 = 2 * static_cast<double>(device->f64_per_cycle) * cycles;
  roof.half = 2 * static_cast<double>(device->tensor_f16_per_cycle) * cycles;
  if (device->l2_bytes_per_cycle > 0)
    roof.levels.push_back({"L2", 1, static_cast<double>(device->l2_bytes_per_cycle) * device->clock_hz()});
  if (device->memory_gb_per_second > 0)
    roof.levels.push_back({"memory", std::max(2.0, static_cast<double>(device->l2_bytes)),
                           static_cast<double>(device->memory_gb_per_second) * 1e9});
  return roof;
}

RoofBound bound_of(const Work& work, const Roof& roof, int threads) {
  RoofBound bound;
  for (std::size_t i = 0; i < roof.levels.size(); ++i) {
    if (i == 0 || work.bytes / threads >= roof.levels[i].bytes) bound.level = static_cast<int>(i);
  }
  double peak = peak_of(roof, work.type);
  double arithmetic = peak > 0 ? work.flops / peak : 0;
  double moving = bound.level >= 0 ? work.bytes / roof.levels[static_cast<std::size_t>(bound.level)].bandwidth : 0;
  bound.seconds = std::max(arithmetic, moving);
  bound.by_arithmetic = arithmetic > moving;
  return bound;
}

}  // namespace tw
