/* What the kernels of the tests share. They are compiled alone, without a library: see
 * tests/CMakeLists.txt. */
#pragma once
#include <stddef.h>

#include "backends/kernel_abi.h"

#define SIDE 64
#define CELLS (SIDE * SIDE)
#define ODD 1003

/* C = A * B, where B lies transposed. */
static inline void multiply_packed(const float* a, const float* packed, float* c) {
  for (int64_t i = 0; i < SIDE; ++i) {
    for (int64_t j = 0; j < SIDE; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < SIDE; ++k) sum += a[i * SIDE + k] * packed[j * SIDE + k];
      c[i * SIDE + j] = sum;
    }
  }
}

#define RUN(name) int32_t name##_run(void* const* buffers, void* scratch, tw_parallel_for parallel_for, void* pool)
