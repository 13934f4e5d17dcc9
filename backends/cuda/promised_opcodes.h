// What a schedule promises of its machine code, by its marks: matrix instructions with their loads (`warp_mma`,
// `warpgroup_mma`), asynchronous copies (`async`, in a pipeline that is ahead). A kernel without them is right, and
// slow: the printer did not see what the schedule meant.
#pragma once
#include <string>

#include "backends/cuda/nvrtc.h"
#include "dsl/ir/program.h"

namespace tw::cuda {

// The instruction that a scheduled program promises and none of its kernels has, "" = there is none. `arch`: what it
// was compiled for, "sm_80"; older ones have no asynchronous copies.
std::string missing_opcode(const Program& program, const std::string& arch, const Compiled& compiled);

}  // namespace tw::cuda
