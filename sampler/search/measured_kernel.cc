#include "sampler/search/measured_kernel.h"

#include <algorithm>

#include "dsl/base/text.h"

namespace tw {

WorkerOptions worker_options(const Target& target) {
  if (target.kind == TargetKind::Cuda) return {.program = "tracewright-worker-cuda", .device = 0};
  if (target.kind == TargetKind::OpenCl) return {.program = "tracewright-worker-opencl", .device = target.device};
  return {};
}

std::string measuring_host(const Target& target, int device, Timing timing) {
  if (timing == Timing::Cold) return cat(measuring_host(target, device), kColdCaches);
  std::string host = host_description();
  if (!is_device(target)) return host;
  std::vector<std::string> devices = list_devices(worker_options(target)).devices;
  auto index = static_cast<std::size_t>(std::max(device, 0));
  return index < devices.size() ? cat(devices[index].substr(devices[index].find(' ') + 1), "; ", host) : host;
}

Hash128 object_hash(const Kernel& kernel) { return hash_bytes(kernel.code); }

void set_result(Record& record, const MeasureResult& measured) {
  record.status = name_of(measured.status);
  record.error = measured.message;
  if (!record.ok()) return;
  record.seconds = measured.seconds;
  record.minimum = measured.min_seconds;
  record.median = measured.median_seconds;
  record.cold = measured.cold_seconds;
  // Quartiles of ratios to the incumbent's time, where there is one.
  double unit = measured.ratio > 0 ? measured.seconds / measured.ratio : 1;
  record.first_quartile = measured.lower_quartile * unit;
  record.third_quartile = measured.upper_quartile * unit;
}

}  // namespace tw
