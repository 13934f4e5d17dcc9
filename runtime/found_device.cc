#include "runtime/found_device.h"

#include <algorithm>
#include <cctype>

#include "backends/device.h"
#include "backends/target.h"
#include "dsl/base/text.h"
#include "runtime/device_file.h"
#include "runtime/measurer.h"

namespace tw {

std::string capability_in(const std::string& line) {
  std::size_t begin = line.find("(sm_");
  if (begin == std::string::npos) return "";
  return line.substr(begin + 1, line.find_first_of(",)", begin) - begin - 1);
}

bool runs_on(std::string_view arch, std::string_view device) {
  if (arch.ends_with('a')) return arch.substr(0, arch.size() - 1) == device;
  if (arch.size() < 5 || arch.size() != device.size()) return false;
  std::size_t minor = arch.size() - 1;
  return arch.substr(0, minor) == device.substr(0, minor) && arch[minor] <= device[minor];
}

FoundDevice found_device(const std::string& line) {
  FoundDevice out;
  std::string capability = capability_in(line), name = line;
  for (const std::string& arch : cuda_archs()) {
    if (runs_on(arch, capability)) out.arch = arch;
  }
  // "NVIDIA GeForce RTX 4090" is described as rtx4090.
  std::erase(name, ' ');
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string& described : built_in_devices()) {
    if (name.find(described) != std::string::npos) out.gpu = described;
  }
  return out;
}

std::optional<FoundDevice> first_cuda_device(std::string& error) {
  DeviceList found = list_devices({.program = "tracewright-worker-cuda", .device = 0});
  if (found.devices.empty()) return error = found.error, std::nullopt;
  const std::string& line = found.devices[0];
  if (std::size_t why = line.find(device::kCannotBeUsed); why != std::string::npos) return error = line, std::nullopt;
  FoundDevice out = found_device(line);
  if (out.arch.empty()) return error = cat("no known `arch` runs on device ", line), std::nullopt;
  return out;
}

}  // namespace tw
