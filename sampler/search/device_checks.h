// Kernels of our own that look at results on a device, so that no result of a candidate which will not be the best has
// to come to the host (runtime/worker_device/device_checks.h runs them). They are workloads in text like all others,
// sampler/search/device_checks.tw, with a plain schedule.
#pragma once
#include <vector>

#include "backends/target.h"
#include "dsl/ir/program.h"
#include "runtime/measure/measurer.h"

namespace tw {

// With less data than this the host is as fast.
inline constexpr i64 kDeviceCheckBytes = 1 << 20;

// For the inputs and outputs of a workload. `sample`: where results are compared with a sample, else null. None if the
// workload has little data; where one cannot be made for the target, the host does without it.
std::vector<DeviceCheck> device_checks(const Program& program, const Target& target, const SampledReference* sample);

}  // namespace tw
