#include "runtime/measure/found_device.h"

#include <cctype>
#include <cstdlib>
#include <set>
#include <utility>

#include "backends/device.h"
#include "backends/target.h"
#include "dsl/base/text.h"
#include "runtime/measure/measurer.h"

namespace tw {
namespace {

// In small letters, and each with the one behind it: "NVIDIA GeForce RTX 4090" is described as rtx4090.
std::set<std::string> words_of(const std::string& line) {
  std::set<std::string> out;
  std::string word, before;
  for (char c : line.substr(0, line.find('(')) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c))) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    } else if (!word.empty()) {
      out.insert({word, before + word});
      before = std::exchange(word, "");
    }
  }
  return out;
}

}  // namespace

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

int cuda_of_driver(const std::string& line) {
  constexpr std::string_view kBefore = "driver for CUDA ";
  std::size_t at = line.find(kBefore);
  return at == std::string::npos ? 0 : std::atoi(line.c_str() + at + kBefore.size());
}

FoundDevice found_device(const std::string& line) {
  FoundDevice out;
  std::string capability = capability_in(line), errors;
  for (const std::string& arch : cuda_archs()) {
    if (runs_on(arch, capability)) out.arch = arch;
  }
  std::set<std::string> words = words_of(line);
  for (const char* smaller : {"mig", "laptop", "mobile"}) {
    if (words.count(smaller)) return out;
  }
  for (const std::string& name : built_in_devices()) {
    Target target;
    target.kind = TargetKind::Cuda, target.gpu = name, target.arch = out.arch;
    if (words.count(name) && device_of(target, errors)) out.gpu = name;
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
