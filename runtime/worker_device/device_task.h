// DeviceTask: one workload in the worker of a device: its data and reference outputs on the host, its memory on the
// device, the kernels that are loaded. And one measurement of a candidate:
//   check     outputs, packed operands and scratch poisoned; run; outputs compared, bands beside all memory looked at
//   time      samples (runtime/worker/sampling.h): OpenCL by wall clock, launches and waiting included; CUDA by events
//             around a graph of launches; then the device's own clock; then, if asked for, the same with cold caches,
//             whose results are compared, too
//   recheck   other data, outputs poisoned; run; outputs compared; inputs must be what they were
#pragma once
#include <map>
#include <memory>

#include "backends/device.h"
#include "runtime/worker/task.h"
#include "runtime/worker_device/watchdog.h"

namespace tw {

// What all measurements of this worker share.
struct DeviceWorker {
  device::Device& gpu;
  Watchdog& watchdog;
  i64 memory_bytes = 0;
  double reference_timeout_seconds = 0;
  int schedstat = -1;
};

class DeviceTask {
 public:
  // Draws the data and, if there is no sample, runs the reference, on the host. On failure `failure` says why.
  DeviceTask(DeviceWorker& worker, BeginTaskMessage& message, double& reference_seconds, TaskFailure& failure);

  MeasureResult measure(const Kernel& candidate, const Kernel* incumbent, double incumbent_seconds,
                        const MeasureOptions& options);

 private:
  // A kernel on the device with memory of its own for packed operands and scratch.
  struct Loaded {
    std::string code;
    std::map<std::string, std::unique_ptr<device::Memory>> packed;
    std::unique_ptr<device::Memory> scratch;
    std::unique_ptr<device::LoadedKernel> kernel;
  };
  TaskFailure run_reference(const Kernel& reference, double& seconds);
  TaskFailure bring_inputs(const KernelManifest& reference);
  std::shared_ptr<Loaded> load(const Kernel& kernel, MeasureResult& result);
  device::Memory* memory_for(const KernelArgument& argument, Loaded& owner, std::string& error);
  MeasureResult check_and_time(const Kernel& candidate, const Kernel* incumbent, double incumbent_seconds,
                               const MeasureOptions& options);
  bool check(const Kernel& candidate, Loaded& loaded, int set, const char* when, MeasureResult& result);
  bool compare(const Kernel& candidate, Loaded& loaded, int set, const char* when, MeasureResult& result);
  bool poison_outputs();
  bool time(Loaded& candidate, Loaded* incumbent, double incumbent_seconds, const MeasureOptions& options,
            MeasureResult& result);
  bool time_cold(const Kernel& candidate, Loaded& loaded, const MeasureOptions& options, MeasureResult& result);
  bool inputs_intact(int set, MeasureResult& result);
  bool upload(int set);
  void expect(double seconds, const char* doing, double limit);

  DeviceWorker& worker_;
  std::unique_ptr<Task> data_;
  std::map<std::string, std::unique_ptr<device::Memory>> inputs_, outputs_;  // outputs by name and size
  std::map<std::string, const char*> host_inputs_[kSets];  // of each layout, which holds the set of its number
  int set_on_device_ = -1;
  std::shared_ptr<Loaded> incumbent_, latest_;
};

}  // namespace tw
