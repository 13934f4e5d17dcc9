// Descriptions of GPUs (costmodel/gpu/gpu_device.h) from YAML: those that are built in (costmodel/devices/*.yaml), and
// files of the user's. For everything that ranks or checks kernels of `cuda` targets without a device.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/target.h"
#include "costmodel/gpu/gpu_device.h"
#include "dsl/base/diagnostic.h"

namespace tw {

// Reads one description. Errors are reported with their place, several at once; then nullopt.
std::optional<GpuDevice> parse_device(Diagnostics& diagnostics);

// Names of the built-in ones, sorted.
std::vector<std::string> built_in_devices();

// A device of this machine, as targets name it.
struct FoundDevice {
  std::string arch;  // the best known one whose code runs there: sm_90a for sm_90; "" if there is none
  std::string gpu;   // the built-in description (`built_in_devices`) of that arch whose name is a word of the device's;
                     // "" if there is none, and of parts of a GPU
};

// The device of a target that is_gpu: the file or built-in description that it names, else the built-in one of its
// arch. nullopt with every problem as text in `errors`: no such file, a wrong file, an arch that is not that of a cuda
// target, an arch without description.
std::optional<GpuDevice> device_of(const Target& target, std::string& errors);

}  // namespace tw
