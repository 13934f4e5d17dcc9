// CUDA C to PTX and machine code with NVRTC, opened at run time: no toolkit is needed to build or start, and no driver
// to compile. Used by tune, replay and export; what the compiler says about registers and spills is read here. Runs
// nothing on a device.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/cubin.h"

namespace tw::cuda {

// What ptxas says about one kernel.
struct KernelUse {
  std::string name;
  int registers = 0;
  i64 stack_bytes = 0, spill_store_bytes = 0, spill_load_bytes = 0;
  i64 shared_bytes = 0;
};

struct Compiled {
  std::string ptx, cubin, log;
  std::vector<KernelUse> kernels;  // from the log
  std::vector<CubinKernel> code;   // from the cubin
};

// The library that is used and its version, "13.0 (libnvrtc.so.13)"; or nullopt with what was tried in `error`.
std::optional<std::string> nvrtc_version(std::string& error);

// `arch`: "sm_80". On failure nullopt, and `error` has the compiler's first messages. Several threads may compile at
// once.
std::optional<Compiled> compile(const std::string& source, const std::string& arch, std::string& error);

// Reads ptxas's verbose log.
std::vector<KernelUse> parse_log(std::string_view log);

// What speaks against running compiled kernels, "" = nothing: registers spilled to memory, arrays that should be in
// registers but are not, warnings C75xx of ptxas (wgmma serialized, setmaxnreg ignored, a barrier's arrival injected).
std::string why_unfit(const Compiled& compiled);

}  // namespace tw::cuda
