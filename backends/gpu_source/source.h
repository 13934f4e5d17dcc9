// Device source: lowered kernels as OpenCL C or CUDA C text, and how to launch them. Used by the search, replay and
// export; the text is compiled by the device's driver in a worker, or by NVRTC. Nothing is compiled or run here.
#pragma once
#include <string>
#include <string_view>

#include "backends/kernel.h"
#include "dsl/base/result.h"
#include "dsl/passes/lower_gpu.h"

namespace tw {

enum class SourceLanguage : u8 { OpenClC, CudaC };

// The source and its manifest with launches. Kernels are named <symbol>_run_0, <symbol>_prepack_0 and so on. Needs no
// header. The same program gives the same text, and what differs in launches differs in the text.
Result<Kernel> print_device_source(const LoweredGpuProgram& program, SourceLanguage language, std::string_view symbol);

}  // namespace tw
