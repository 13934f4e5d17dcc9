// Kernels for the CUDA driver that has no device (tests/cuda_stub).
#pragma once
#include "backends/kernel.h"
#include "dsl/base/text.h"
#include "dsl/ir/program.h"

namespace tw::test {

// What the stub takes for machine code of a product of two matrices, TW_STUB_GEMM, that takes so many microseconds.
inline Kernel stub_kernel(const Program& product, int microseconds) {
  Kernel out;
  out.code = cat("\x7f", "ELF takes ", microseconds);
  KernelLaunch launch{.name = "product"};
  for (const Param& param : product.params) {
    const Buffer* buffer = param.buffer;
    launch.pointers.push_back({.at = static_cast<i64>(out.manifest.run.size()), .bytes = bytes_of(buffer)});
    out.manifest.run.push_back({std::string(buffer->name),
                                param.role == Role::Output ? ArgumentRole::Output : ArgumentRole::Input,
                                buffer->dtype,
                                {buffer->shape.begin(), buffer->shape.end()},
                                bytes_of(buffer)});
  }
  out.manifest.run_launches = {launch};
  return out;
}

}  // namespace tw::test
