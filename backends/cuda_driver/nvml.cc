#include "backends/cuda_driver/nvml.h"

#include <dlfcn.h>

#include <type_traits>

namespace tw::cuda {
namespace {

enum Clock : int { Multiprocessors = 1 };
enum Reason : unsigned long long {
  HardwareSlowdown = 0x8,
  SoftwareThermal = 0x20,
  HardwareThermal = 0x40,
  HardwarePowerBrake = 0x80
};

struct Nvml {
  int (*init)() = nullptr;
  int (*device_at)(const char* bus_id, void** device) = nullptr;
  int (*clock)(void* device, int kind, unsigned* mhz) = nullptr;
  int (*most_clock)(void* device, int kind, unsigned* mhz) = nullptr;
  int (*reasons)(void* device, unsigned long long* reasons) = nullptr;
  bool is_there = false;

  Nvml() {
    void* library = nullptr;
    for (const char* path : {"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1"})
      library = library ? library : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    is_there = true;
    auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      is_there &= function != nullptr;
    };
    load(init, "nvmlInit_v2");
    load(device_at, "nvmlDeviceGetHandleByPciBusId_v2");
    load(clock, "nvmlDeviceGetClockInfo");
    load(most_clock, "nvmlDeviceGetMaxClockInfo");
    load(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    is_there = is_there && init() == 0;
  }
};

const Nvml& nvml() {
  static const Nvml library;
  return library;
}

}  // namespace

ClockWatch::ClockWatch(const std::string& bus_id) {
  unsigned most = 0;
  if (!nvml().is_there || nvml().device_at(bus_id.c_str(), &device_) != 0) device_ = nullptr;
  if (device_ && nvml().most_clock(device_, Multiprocessors, &most) == 0) most_mhz_ = static_cast<int>(most);
}

int ClockWatch::mhz() const {
  unsigned now = 0;
  return device_ && nvml().clock(device_, Multiprocessors, &now) == 0 ? static_cast<int>(now) : 0;
}

std::string ClockWatch::slowdown() const {
  unsigned long long reasons = 0;
  if (!device_ || nvml().reasons(device_, &reasons) != 0) return "";
  if (reasons & (SoftwareThermal | HardwareThermal)) return "heat";
  return reasons & (HardwareSlowdown | HardwarePowerBrake) ? "the hardware" : "";
}

}  // namespace tw::cuda
