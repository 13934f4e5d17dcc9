// DeviceTask: one workload in the worker of a device: its data and reference outputs on the host, its memory on the
// device, the kernels that are loaded. And one measurement of a candidate:
//   check     outputs, packed operands and scratch poisoned; run; outputs compared, bands beside all memory looked at.
//             On the device where the tuner has given it kernels for that, else on the host; what may become the best,
//             and what the device does not find right, is compared on the host
//   time      samples (device_timing.h): OpenCL by wall clock, launches and waiting included; CUDA by events around a
//             graph of launches; then with cold caches, whose results are compared, too
//   recheck   other data, outputs poisoned; run; outputs compared; inputs must be what they were
#pragma once
#include <map>
#include <memory>

#include "backends/device.h"
#include "runtime/worker/task.h"
#include "runtime/worker_device/device_checks.h"
#include "runtime/worker_device/device_timing.h"
#include "runtime/worker_device/watchdog.h"

namespace tw {

// What all measurements of this worker share.
struct DeviceWorker {
  device::Device& gpu;
  Watchdog& watchdog;
  i64 memory_bytes = 0;
  double reference_timeout_seconds = 0;
  int schedstat = -1;
  i64 check_bytes = 0;  // of the device, for what the checks of all tasks keep there
  CacheFlush flush;
};

class DeviceTask {
 public:
  // Draws the data and, if there is no sample, runs the reference, on the host, or takes its results from `file`, where
  // it leaves them; -1 = no file. On failure `failure` says why.
  DeviceTask(DeviceWorker& worker, BeginTaskMessage& message, int file, double& reference_seconds,
             TaskFailure& failure);

  // From now on by these, too.
  void check_on_device(std::vector<DeviceCheck> checks);
  MeasureResult measure(const Kernel& candidate, const Kernel* incumbent, double incumbent_seconds,
                        const MeasureOptions& options);
  // Who says whether a result is right: the device if it can, or the host in any case.
  enum class By : u8 { Device, Host };
  // Is all that is kept on the device between measurements what it was?
  bool is_intact(By by);
  // Brings it from the host again.
  void renew();

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
  // How much of the guard bands is looked at.
  static device::Memory::Reach reach_of(By by) {
    return by == By::Host ? device::Memory::Reach::All : device::Memory::Reach::Near;
  }
  bool check(const Kernel& candidate, Loaded& loaded, int set, By by, const char* when, MeasureResult& result);
  bool compare(const Kernel& candidate, Loaded& loaded, int set, By by, const char* when, MeasureResult& result);
  bool is_right_by_device(const Kernel& candidate, Loaded& loaded, int set, MeasureResult& result);
  bool compare_on_host(const Kernel& candidate, Loaded& loaded, int set, const char* when, MeasureResult& result);
  bool time_and_check_again(const Kernel& candidate, Loaded& loaded, Loaded* incumbent, double incumbent_seconds,
                            By first, const MeasureOptions& options, MeasureResult& result);
  bool poison_outputs();
  bool time(Loaded& candidate, Loaded* incumbent, double incumbent_seconds, const MeasureOptions& options,
            MeasureResult& result);
  bool time_cold(const Kernel& candidate, Loaded& loaded, By by, const MeasureOptions& options, MeasureResult& result);
  bool inputs_intact(int set, By by, MeasureResult& result);
  bool upload(int set);
  void expect(double seconds, const char* doing, double limit);

  DeviceWorker& worker_;
  std::unique_ptr<Task> data_;
  std::map<std::string, std::unique_ptr<device::Memory>> inputs_, outputs_;  // outputs by name and size
  std::map<std::string, const char*> host_inputs_[kSets];  // of each layout, which holds the set of its number
  std::vector<char> read_back_;
  std::unique_ptr<DeviceChecks> checks_;
  int set_on_device_ = -1;
  std::shared_ptr<Loaded> incumbent_, latest_;
};

}  // namespace tw
