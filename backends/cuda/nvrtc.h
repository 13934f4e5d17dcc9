// CUDA C to PTX and machine code with NVRTC, opened at run time: no toolkit is needed to build or start, and no driver
// to compile. Used by replay; what the compiler says about registers and spills, and the instructions in the machine
// code, are read here. Runs nothing on a device.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/arena.h"

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
  std::vector<KernelUse> kernels;
};

// The library that is used and its version, "13.0 (libnvrtc.so.13)"; or nullopt with what was tried in `error`.
std::optional<std::string> nvrtc_version(std::string& error);

// `arch`: "sm_80". On failure nullopt, and `error` has the compiler's first messages.
std::optional<Compiled> compile(const std::string& source, const std::string& arch, std::string& error);

// Reads ptxas's verbose log.
std::vector<KernelUse> parse_log(std::string_view log);

// How often each opcode (the low 12 bits of an instruction) occurs in a kernel of a cubin; empty if there is no such
// kernel. FFMA 0x223, LDS 0x984, STS 0x388, LDG 0x981, STG 0x986, LDL 0x983, STL 0x387, BAR 0xb1d, HMMA 0x23c, LDSM
// 0x83b, LDGSTS 0xfae.
std::map<int, int> opcodes_of(std::string_view cubin, const std::string& kernel);

}  // namespace tw::cuda
