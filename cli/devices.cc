#include "cli/devices.h"

#include "backends/device.h"
#include "dsl/base/text.h"
#include "runtime/measure/found_device.h"
#include "runtime/measure/measurer.h"
#include "sampler/search/trial.h"

namespace tw::cli {
namespace {

std::string why_not_this_one(const Target& target, const DeviceList& devices, const std::string& nvrtc,
                             std::size_t index) {
  const char* kind = target.kind == TargetKind::Cuda ? "CUDA" : "OpenCL";
  if (index >= devices.devices.size())
    return cat("there is no ", kind, " device ", index, "; there ",
               devices.devices.size() == 1 ? "is 0: " : "are, from 0: ", join(devices.devices, ", "));
  if (std::string problem = why_unusable(devices.devices[index]); !problem.empty()) return problem;
  int cuda = cuda_of_driver(devices.devices[index]);
  if (cuda > 0 && std::atoi(nvrtc.c_str()) > cuda)
    return cat("machine code of NVRTC ", nvrtc, " needs a newer driver than that of device ", devices.devices[index],
               "; install one (580 or newer for CUDA 13), or an NVRTC of CUDA ", cuda,
               ", whose path $TRACEWRIGHT_NVRTC may name");
  std::string found = capability_in(devices.devices[index]);
  if (target.kind != TargetKind::Cuda || found.empty() || runs_on(target.arch, found)) return "";
  return cat("kernels for ", target.arch, " do not run on device ", devices.devices[index],
             "; write `device: auto` or `arch: ", found_device(devices.devices[index]).arch,
             "`, or choose another device by CUDA_VISIBLE_DEVICES");
}

}  // namespace

std::string why_unusable(const std::string& line) {
  std::size_t at = line.find(device::kCannotBeUsed);
  return at == std::string::npos ? "" : line.substr(at + std::string_view(device::kCannotBeUsed).size());
}

std::string why_no_device(const Target& target, const std::string& nvrtc, int index) {
  if (!is_device(target)) return "";
  WorkerOptions worker = worker_options(target);
  DeviceList devices = list_devices(worker);
  return devices.error.empty()
             ? why_not_this_one(target, devices, nvrtc, static_cast<std::size_t>(index < 0 ? worker.device : index))
             : devices.error;
}

}  // namespace tw::cli
