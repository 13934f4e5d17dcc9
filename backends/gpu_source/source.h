// Device source: lowered kernels as OpenCL C or CUDA C text, and how to launch them. Used by the search, replay and
// export; the text is compiled by the device's driver in a worker, or by NVRTC. Nothing is compiled or run here.
#pragma once
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "backends/kernel.h"
#include "dsl/base/result.h"
#include "dsl/passes/lower_gpu.h"

namespace tw {

enum class SourceLanguage : u8 { OpenClC, CudaC };

// The source and its manifest with launches. Kernels are named <symbol>_run_0, <symbol>_prepack_0 and so on. Needs no
// header. The same program gives the same text, and what differs in launches differs in the text. Rejects a kernel with
// more bytes of shared memory than `most_shared_bytes`: lowering counts before it copies code, and what work-items
// combine through is copied with it. `gpu`: the architecture ("sm_80") whose matrix instructions may be used; "" = any.
Result<Kernel> print_device_source(const LoweredGpuProgram& program, SourceLanguage language, std::string_view symbol,
                                   i64 most_shared_bytes = std::numeric_limits<i64>::max(),
                                   const std::string& gpu = "");

// Pointers of a printed kernel are `restrict`: no two are to the same memory. Removes that word from the buffers of
// these pairs, which have to be among the manifest's overwrites.
void allow_overwrites(Kernel& kernel, SourceLanguage language, const std::vector<Overwrite>& pairs);

}  // namespace tw
