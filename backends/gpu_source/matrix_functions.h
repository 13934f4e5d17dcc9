// The device functions of CUDA C that hold matrix instructions of a warp, as text: inline PTX, and what it means where
// kernels are emulated. For print_mma.cc, which decides when they may be called.
#pragma once
#include <string>
#include <vector>

#include "dsl/intrinsics/intrinsic.h"

namespace tw::gpu {

struct DeviceFunction {
  std::string name, definition;
};
// (a lane's sums, registers of each operand): the intrinsic of a warp as inline PTX, and for the emulator from its
// description and layouts: lanes bring what they hold, and each one adds up its own sums.
DeviceFunction mma_function(const Intrinsic& intrinsic);
// The same of four warps (wgmma). (a lane's sums, then of each operand where it begins in shared memory, and how many
// bytes the next 64 rows of it are behind, where memory runs across the sum, else 0). `across`: of each operand,
// whether memory runs across the sum. Rows are of 128 bytes, whose pieces of 16 bytes are exchanged as `xor 3` says.
DeviceFunction warpgroup_mma_function(const Intrinsic& intrinsic, const std::vector<bool>& across);
// (): before the first of these, behind the last, and waiting until all have ended; and before a barrier behind which
// they read what threads have written.
DeviceFunction warpgroup_begin_function();
DeviceFunction warpgroup_commit_function();
DeviceFunction warpgroup_wait_function();
DeviceFunction shared_fence_function();
// (registers, place): 1, 2 or 4 pieces of 8 rows by 16 bytes in shared memory, each as mma wants it, or with rows and
// columns exchanged, which halves can be. Lane t says where row t % 8 of piece t // 8 begins.
DeviceFunction ldmatrix_function(int pieces, bool is_transposed);
// (bits): of a float, rounded as mma takes it (tf32).
DeviceFunction round_function();
// (values, ...): 4 bytes of operands as one register.
DeviceFunction pack_function(DType type);

}  // namespace tw::gpu
