// Kernels of a device as the search makes them, without the search.
#pragma once
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "backends/target.h"

namespace tw::test {

// Source text of some draws from the space that `set` has for `use`, over all of its sketches. Draws that cannot be lowered are left out.
std::vector<Kernel> drawn_kernels(const std::string& use, const std::string& set, const Target& target, int draws);

}  // namespace tw::test
