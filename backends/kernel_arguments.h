// The arguments of an entry point as a manifest lists them. For the backends.
#pragma once
#include <vector>

#include "backends/kernel.h"
#include "dsl/passes/lower.h"

namespace tw {

std::vector<KernelArgument> kernel_arguments(Array<LoweredArgument> arguments);

}  // namespace tw
