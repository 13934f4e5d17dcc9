/* What the kernels of the tests share. They are compiled alone, without a library: see
 * tests/CMakeLists.txt. */
#pragma once
#include <stddef.h>

#include "backends/kernel_abi.h"

#define SIDE 64
#define CELLS (SIDE * SIDE)
#define ODD 1003
#define RUN(name) \
  int32_t name##_run(void* const* buffers, void* scratch, tw_parallel_for parallel_for, void* pool)
