// The device functions of CUDA C that hold matrix instructions of a warp, as text: inline PTX, and what it means where
// kernels are emulated. For print_mma.cc, which decides when they may be called.
#pragma once
#include <string>

#include "dsl/ir/types.h"

namespace tw::gpu {

struct DeviceFunction {
  std::string name, definition;
};
// (c0, c1, c2, c3, registers of A, registers of B): sums of 16 x 8 products of operands of these types, whose rows have
// 16 or 32 bytes (`pieces` = 1, 2).
DeviceFunction mma_function(DType a, DType b, int pieces);
// (registers, place): 1, 2 or 4 pieces of 8 rows by 16 bytes in shared memory, each as mma wants it, or with rows and
// columns exchanged, which halves can be. Lane t says where row t % 8 of piece t // 8 begins.
DeviceFunction ldmatrix_function(int pieces, bool is_transposed);
// (bits): of a float, rounded as mma takes it (tf32).
DeviceFunction round_function();
// (values, ...): 4 bytes of operands as one register.
DeviceFunction pack_function(DType type);

}  // namespace tw::gpu
