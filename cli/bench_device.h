// `bench` of tasks for devices: their best kernel, measured again in the device's worker, with caches that hold what
// fits into them and with cold ones. A part of the subcommand bench. Other libraries are not asked: those of processors
// say little about a device, and NVIDIA's are compared by tracewright-gpu-bench.
#pragma once
#include <memory>
#include <optional>

#include "backends/kernel.h"
#include "runtime/measure/measurer.h"
#include "sampler/search/tune.h"

namespace tw::cli {

struct DeviceTimes {
  double seconds = 0, lower = 0, upper = 0;  // median of a call, and quartiles
  double device_seconds = 0, cold_seconds = 0;
  int samples = 0;
  bool is_wrong = false;  // then there is no time
};

// One worker, started for the target of the first task and again when a task is for another.
class DeviceBench {
 public:
  // At least `samples` samples. nullopt after a message: no device, or the kernel does not run.
  std::optional<DeviceTimes> measure(const TuneTask& task, const Kernel& kernel, int samples);

 private:
  std::string target_;
  WorkerStart worker_;
};

}  // namespace tw::cli
