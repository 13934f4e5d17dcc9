// What OpenCL C and CUDA C write differently, as tables. For the printer in this folder; a further C-like language is a
// further row.
#pragma once
#include <string>

#include "dsl/ir/nodes.h"

namespace tw::gpu {

struct Language {
  const char* kernel_prefix;  // before `name(`; %x %y %z are the extents of a work-group, %b CUDA's launch bounds
  const char* pointer;        // qualifiers before the type of a kernel's parameter
  const char* restrict_word;
  const char* shared;  // qualifier of a Shared buffer's declaration
  // The declaration of shared memory whose size the launch gives, for kernels with more than kStaticSharedBytes; null =
  // there is no need.
  const char* dynamic_shared;
  const char* function_prefix;  // of functions in the prelude
  const char* group[3];         // the work-group's place in the grid
  const char* thread[3];
  const char* barrier;
  const char* shuffle;  // (lanes that take part, value, distance): the value of another lane of the warp; null = none
  const char*
      async_copies;  // definitions of tw_copy_async_4, _8, _16 (to, from), _commit and _wait<groups>; null = none
  const char* async_fills;       // and of tw_copy_async_or_zeros_4, _8, _16 (to, from, is_inside)
  const char* divide;            // definition of tw_divide(a, b), for floats; null = `/` does it
  bool has_matrix_instructions;  // mma.sync and ldmatrix (matrix_functions.h)
  const char* infinity;          // of type float
  const char* nan;
  const char* wide_int;  // for indices beyond 2^31, and I64 data
  bool has_vectors;      // arithmetic on vectors, vloadN, convert_T, select
  const char* prelude;   // text in front of everything
  const char* gpu = "";  // the architecture that a text is for, "sm_80"; "" = any
};
const Language& opencl_c();
const Language& cuda_c();

// CUDA C: the types tw_f16 and tw_bf16, and their conversions from and to float.
const char* half_functions();

// "float"; of bool and halves as they lie in memory.
const char* type_name(const Language& language, DType type);
// The function's name for f32 and f64 arguments, "" if it is written out (sigmoid, rsqrt in CUDA for f64 ...).
std::string function_name(const Language& language, Function function, DType type);

}  // namespace tw::gpu
