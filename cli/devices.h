// Devices of this machine, before work is begun for them.
#pragma once
#include <string>

#include "backends/target.h"

namespace tw::cli {

// Why nothing can be measured here for the target: no driver, no such device, or one that does not run what is compiled
// for `arch`. "" where it can (always so for processors). Asks the worker of that kind. `index`: of the device, if it
// is not the target's; `nvrtc`: the version of what makes, or has made, machine code for CUDA devices, whose driver
// must not be of an older CUDA (CUDA Compatibility, "Minor Version Compatibility").
std::string why_no_device(const Target& target, const std::string& nvrtc = "", int index = -1);

// What the line of a device in a DeviceList says against using it; "" if nothing.
std::string why_unusable(const std::string& line);

}  // namespace tw::cli
