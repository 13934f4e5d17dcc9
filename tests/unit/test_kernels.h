// Kernels of tests/kernels with their manifests.
#pragma once
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "support/support.h"

namespace tw::test {

inline KernelArgument argument(std::string name, ArgumentRole role, std::vector<i64> shape, DType type = DType::F32) {
  i64 bytes = bytes_of(type);
  for (i64 extent : shape) bytes *= extent;
  return {std::move(name), role, type, std::move(shape), bytes};
}

// The kernel `symbol` of tests/kernels/<file>.c.
inline Kernel test_kernel(const std::string& file, const std::string& symbol, std::vector<KernelArgument> run) {
  Kernel kernel;
  kernel.code = read_file(std::string(TW_BINARY_DIR) + "/tests/kernels/" + file + ".o");
  kernel.manifest.symbol = symbol;
  kernel.manifest.run = std::move(run);
  return kernel;
}

inline constexpr i64 kSide = 64, kOdd = 1003;

// C = A * B of 64 x 64, with room for the tricks that some of them play in the scratch.
inline Kernel matmul_kernel(const std::string& file, const std::string& symbol, DType output = DType::F32) {
  Kernel kernel = test_kernel(
      file, symbol,
      {argument("A", ArgumentRole::Input, {kSide, kSide}), argument("B", ArgumentRole::Constant, {kSide, kSide}),
       argument("C", ArgumentRole::Output, {kSide, kSide}, output)});
  kernel.manifest.scratch_shared_bytes = 32768;
  return kernel;
}

// Y = X + 1 of 1003 elements.
inline Kernel vector_kernel(const std::string& file, const std::string& symbol) {
  return test_kernel(file, symbol,
                     {argument("X", ArgumentRole::Input, {kOdd}), argument("Y", ArgumentRole::Output, {kOdd})});
}

inline Kernel packed_matmul(const std::string& file = "honest", const std::string& symbol = "matmul_packed") {
  Kernel kernel = matmul_kernel(file, symbol);
  KernelArgument packed = argument("B.packed", ArgumentRole::Packed, {kSide, kSide});
  kernel.manifest.prepack = {kernel.manifest.run[1], packed};
  kernel.manifest.run[1] = packed;
  return kernel;
}

inline Kernel parallel_matmul() {
  Kernel kernel = matmul_kernel("honest", "matmul_parallel");
  kernel.manifest.parallel = true;
  kernel.manifest.scratch_shared_bytes = 0;
  kernel.manifest.scratch_worker_bytes = kSide * 4;
  return kernel;
}

}  // namespace tw::test
