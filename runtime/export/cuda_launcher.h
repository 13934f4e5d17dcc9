/* Runs exported CUDA kernels by the driver API: loads their machine code into the current context, keeps scratch memory
 * and packed operands, launches. In C99, for a copy beside each exported library, whose own file holds the tables. One
 * thread at a time per kernel object; nothing here waits. Needs <cuda.h> and -lcuda, no CUDA runtime.
 */
#ifndef TRACEWRIGHT_CUDA_LAUNCHER_H
#define TRACEWRIGHT_CUDA_LAUNCHER_H
#ifndef TRACEWRIGHT_CUDA_DRIVER_H /* which declares what is used here */
#include <cuda.h>
#endif
#include <stdlib.h>

typedef struct {
  int is_scratch;
  size_t at;    /* index of the entry point's argument, or offset into scratch memory */
  size_t bytes; /* of scratch memory */
} tw_cuda_pointer;

typedef struct {
  const char* name;
  unsigned groups[3], threads[3];
  unsigned shared_bytes; /* given at the launch, beside what the code declares */
  unsigned count;
  const tw_cuda_pointer* pointers;
} tw_cuda_launch;

typedef struct {
  const void* code; /* a cubin */
  size_t scratch_bytes;
  int packed_count;
  const size_t* packed_bytes;
  int launch_count[2]; /* of prepack, of run */
  const tw_cuda_launch* launches[2];
} tw_cuda_table;

enum { TW_CUDA_MOST_PARAMETERS = 64 };

typedef struct {
  const tw_cuda_table* table;
  CUmodule module;
  CUfunction* functions[2];
  CUdeviceptr scratch;
  CUdeviceptr* packed;
} tw_cuda_kernel;

static void tw_cuda_free(tw_cuda_kernel* kernel) {
  if (!kernel) return;
  for (int i = 0; kernel->packed && i < kernel->table->packed_count; ++i) {
    if (kernel->packed[i]) cuMemFree(kernel->packed[i]);
  }
  if (kernel->scratch) cuMemFree(kernel->scratch);
  if (kernel->module) cuModuleUnload(kernel->module);
  for (int entry = 0; entry < 2; ++entry) free(kernel->functions[entry]);
  free(kernel->packed);
  free(kernel);
}

/* NULL with the driver's code in *error. */
static tw_cuda_kernel* tw_cuda_create(const tw_cuda_table* table, CUresult* error) {
  tw_cuda_kernel* kernel = (tw_cuda_kernel*)calloc(1, sizeof *kernel);
  *error = CUDA_ERROR_OUT_OF_MEMORY;
  if (!kernel) return NULL;
  kernel->table = table;
  kernel->packed = (CUdeviceptr*)calloc((size_t)table->packed_count + 1, sizeof(CUdeviceptr));
  for (int entry = 0; entry < 2; ++entry) {
    kernel->functions[entry] = (CUfunction*)calloc((size_t)table->launch_count[entry] + 1, sizeof(CUfunction));
  }
  if (kernel->packed && kernel->functions[0] && kernel->functions[1]) {
    *error = cuModuleLoadData(&kernel->module, table->code);
    if (*error == CUDA_SUCCESS && table->scratch_bytes > 0) *error = cuMemAlloc(&kernel->scratch, table->scratch_bytes);
    for (int i = 0; i < table->packed_count && *error == CUDA_SUCCESS; ++i) {
      *error = cuMemAlloc(&kernel->packed[i], table->packed_bytes[i]);
    }
    for (int entry = 0; entry < 2; ++entry) {
      for (int i = 0; i < table->launch_count[entry] && *error == CUDA_SUCCESS; ++i) {
        const tw_cuda_launch* launch = &table->launches[entry][i];
        CUfunction* function = &kernel->functions[entry][i];
        *error = cuModuleGetFunction(function, kernel->module, launch->name);
        if (*error == CUDA_SUCCESS && launch->shared_bytes > 0) {
          *error =
              cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)launch->shared_bytes);
        }
      }
    }
  }
  if (*error == CUDA_SUCCESS) return kernel;
  tw_cuda_free(kernel);
  return NULL;
}

/* The parameters of a launch on the memory of its entry point's arguments: they point into `pointers`. Both have
 * TW_CUDA_MOST_PARAMETERS places. */
static CUresult tw_cuda_parameters(const tw_cuda_kernel* kernel, const tw_cuda_launch* launch,
                                   const CUdeviceptr* arguments, CUdeviceptr* pointers, void** parameters) {
  if (launch->count > TW_CUDA_MOST_PARAMETERS) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned p = 0; p < launch->count; ++p) {
    const tw_cuda_pointer* pointer = &launch->pointers[p];
    pointers[p] = pointer->is_scratch ? kernel->scratch + pointer->at : arguments[pointer->at];
    parameters[p] = &pointers[p];
  }
  return CUDA_SUCCESS;
}

/* Launches an entry point (0 = prepack, 1 = run) in a stream on the memory of its arguments, in their order. */
static CUresult tw_cuda_launch_all(tw_cuda_kernel* kernel, int entry, CUstream stream, const CUdeviceptr* arguments) {
  CUresult error = CUDA_SUCCESS;
  for (int i = 0; i < kernel->table->launch_count[entry] && error == CUDA_SUCCESS; ++i) {
    const tw_cuda_launch* launch = &kernel->table->launches[entry][i];
    CUdeviceptr pointers[TW_CUDA_MOST_PARAMETERS];
    void* parameters[TW_CUDA_MOST_PARAMETERS];
    error = tw_cuda_parameters(kernel, launch, arguments, pointers, parameters);
    if (error == CUDA_SUCCESS)
      error = cuLaunchKernel(kernel->functions[entry][i], launch->groups[0], launch->groups[1], launch->groups[2],
                             launch->threads[0], launch->threads[1], launch->threads[2], launch->shared_bytes, stream,
                             parameters, NULL);
  }
  return error;
}
#endif
