// What a cubin says about its kernels: registers, stack, shared memory, launch bounds, how often each instruction
// occurs, and what registers multiply-adds read. For checks of compiled candidates and manifests. Needs no tool of the
// CUDA toolkit; the meaning of NVIDIA's ELF sections and opcodes was found by comparing compiles, and tests compare it
// with ptxas's own log. It trusts no length.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/arena.h"

namespace tw::cuda {

struct CubinKernel {
  std::string name;
  int arch = 0;                // 90 of sm_90 and sm_90a
  int registers = 0;           // of one thread
  i64 stack_bytes = 0;         // of one thread
  i64 shared_bytes = 0;        // declared in the source; what the driver adds on sm_90 and later is taken off
  i64 max_threads = 0;         // __launch_bounds__ or the like; 0 = none
  std::map<int, int> opcodes;  // low 12 bits of an instruction -> how often
  // FFMAs that read three registers of one bank, and so take a cycle more: there are two, of even and odd registers,
  // which give two of them a cycle. What the instruction before has kept in the same place need not be read (Jia et al.
  // 2018, arXiv 1804.06826, who measured it on Volta; not measured here on later GPUs).
  int register_conflicts = 0;
  int instructions() const;
  // "FFMA" for 0x223; "0x7a1" for what is not in the table.
  std::string opcode_name(int opcode) const;
  int count(
      std::string_view opcode) const;  // of all instructions of this name, e.g. "HFMA2"; 0 = none, or not a known name
};

// The kernels of a cubin in the order of its sections; nullopt with the reason in `error` if it is not one.
std::optional<std::vector<CubinKernel>> read_cubin(std::string_view cubin, std::string& error);

}  // namespace tw::cuda
