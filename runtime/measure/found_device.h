// Which GPU a device of this machine is, as targets name them. For targets that say `device: auto`, messages and the
// GPU benchmark.
#pragma once
#include <optional>
#include <string>

#include "runtime/lists/device_file.h"

namespace tw {

// "sm_90" of a line of list_devices, "0: NVIDIA H200 (sm_90, 140 GiB, driver for CUDA 13.0)"; "" of one that has none,
// as OpenCL's.
std::string capability_in(const std::string& line);

// Does machine code for `arch` (sm_80, sm_90a) run on a device of compute capability `device` (sm_86)? The major number
// must be the same and the minor one not smaller; `a` asks for exactly that device (CUDA C++ Programming Guide, "Binary
// Compatibility").
bool runs_on(std::string_view arch, std::string_view device);

// 13 of the same line; 0 of one that names no driver.
int cuda_of_driver(const std::string& line);

FoundDevice found_device(const std::string& line);

// The first CUDA device of this machine, asked in a worker. nullopt with why in `error`.
std::optional<FoundDevice> first_cuda_device(std::string& error);

}  // namespace tw
