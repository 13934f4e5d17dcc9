/* Runs exported OpenCL kernels: compiles their source or takes a binary of it, keeps scratch memory and packed
 * operands, enqueues launches. In C99, for a copy beside each exported library, whose own file holds the tables; in
 * that copy backends/opencl/build_options.h and binary_tag.h stand in front. One thread at a time per kernel object;
 * nothing here waits.
 */
#ifndef TRACEWRIGHT_OPENCL_LAUNCHER_H
#define TRACEWRIGHT_OPENCL_LAUNCHER_H
#ifndef TRACEWRIGHT_OPENCL_DRIVER_H /* which declares what is used here */
#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#endif
#include <stdlib.h>

typedef struct {
  int is_scratch;
  size_t at;    /* index of the entry point's argument, or offset into scratch memory */
  size_t bytes; /* of scratch memory */
} tw_cl_pointer;

typedef struct {
  const char* name;
  size_t global[3], local[3];
  cl_uint count;
  const tw_cl_pointer* pointers;
} tw_cl_launch;

typedef struct {
  const char* source;
  size_t scratch_bytes;
  int packed_count;
  const size_t* packed_bytes;
  int launch_count[2]; /* of prepack, of run */
  const tw_cl_launch* launches[2];
} tw_cl_table;

typedef struct {
  const tw_cl_table* table;
  cl_program program;
  int is_from_binary;
  cl_kernel* kernels[2];
  cl_mem scratch;
  cl_mem* packed;
  cl_mem* parts; /* of scratch memory */
  int part_count;
} tw_cl_kernel;

static void tw_cl_free(tw_cl_kernel* kernel) {
  if (!kernel) return;
  for (int entry = 0; entry < 2; ++entry) {
    for (int i = 0; kernel->kernels[entry] && i < kernel->table->launch_count[entry]; ++i) {
      if (kernel->kernels[entry][i]) clReleaseKernel(kernel->kernels[entry][i]);
    }
    free(kernel->kernels[entry]);
  }
  for (int i = 0; i < kernel->part_count; ++i) clReleaseMemObject(kernel->parts[i]);
  for (int i = 0; kernel->packed && i < kernel->table->packed_count; ++i) {
    if (kernel->packed[i]) clReleaseMemObject(kernel->packed[i]);
  }
  if (kernel->scratch) clReleaseMemObject(kernel->scratch);
  if (kernel->program) clReleaseProgram(kernel->program);
  free(kernel->parts);
  free(kernel->packed);
  free(kernel);
}

/* Kernels of one entry point, with their parts of scratch memory. */
static cl_int tw_cl_make_kernels(tw_cl_kernel* kernel, int entry) {
  cl_int error = CL_SUCCESS;
  for (int i = 0; i < kernel->table->launch_count[entry] && error == CL_SUCCESS; ++i) {
    const tw_cl_launch* launch = &kernel->table->launches[entry][i];
    kernel->kernels[entry][i] = clCreateKernel(kernel->program, launch->name, &error);
    for (cl_uint p = 0; p < launch->count && error == CL_SUCCESS; ++p) {
      const tw_cl_pointer* pointer = &launch->pointers[p];
      cl_buffer_region region;
      if (!pointer->is_scratch) continue;
      region.origin = pointer->at;
      region.size = pointer->bytes;
      kernel->parts[kernel->part_count] =
          clCreateSubBuffer(kernel->scratch, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
      if (error != CL_SUCCESS) break;
      error = clSetKernelArg(kernel->kernels[entry][i], p, sizeof(cl_mem), &kernel->parts[kernel->part_count++]);
    }
  }
  return error;
}

/* What the device says of itself, to be freed; NULL without memory. */
static char* tw_cl_text(cl_device_id device, cl_device_info what) {
  size_t bytes = 0;
  if (clGetDeviceInfo(device, what, 0, NULL, &bytes) != CL_SUCCESS) bytes = 0;
  char* text = (char*)calloc(bytes + 1, 1);
  if (text && bytes > 0 && clGetDeviceInfo(device, what, bytes, text, NULL) != CL_SUCCESS) text[0] = 0;
  return text;
}

static cl_int tw_cl_build(cl_program program, cl_device_id device) {
  cl_int error = CL_OUT_OF_HOST_MEMORY;
  char *version = tw_cl_text(device, CL_DEVICE_OPENCL_C_VERSION),
       *extensions = tw_cl_text(device, CL_DEVICE_EXTENSIONS);
  if (version && extensions)
    error = clBuildProgram(program, 1, &device, tw_cl_build_options(version, extensions), NULL, NULL);
  free(version);
  free(extensions);
  return error;
}

static size_t tw_cl_pointer_count(const tw_cl_table* table) {
  size_t count = 1;
  for (int entry = 0; entry < 2; ++entry) {
    for (int i = 0; i < table->launch_count[entry]; ++i) count += table->launches[entry][i].count;
  }
  return count;
}

/* Is this a whole binary of the source, by the device's driver? */
static int tw_cl_is_own_binary(const char* source, cl_device_id device, const unsigned char* bytes, size_t size) {
  const cl_device_info asked[] = {CL_DEVICE_NAME, CL_DEVICE_VERSION, CL_DRIVER_VERSION};
  const char* texts[TW_CL_TAG_TEXTS] = {source};
  char* said[3];
  char tag[TW_CL_TAG_BYTES + 1] = "";
  if (!bytes || size <= TW_CL_TAG_BYTES) return 0;
  for (int i = 0; i < 3; ++i) texts[i + 1] = said[i] = tw_cl_text(device, asked[i]);
  if (said[0] && said[1] && said[2]) tw_cl_binary_tag(texts, bytes + TW_CL_TAG_BYTES, size - TW_CL_TAG_BYTES, tag);
  for (int i = 0; i < 3; ++i) free(said[i]);
  return memcmp(tag, bytes, TW_CL_TAG_BYTES) == 0;
}

/* NULL where the driver does not take it. */
static cl_program tw_cl_load_binary(cl_context context, cl_device_id device, const unsigned char* bytes, size_t size) {
  cl_int error, status = CL_SUCCESS;
  cl_program program = clCreateProgramWithBinary(context, 1, &device, &size, &bytes, &status, &error);
  if (error == CL_SUCCESS && status == CL_SUCCESS && tw_cl_build(program, device) == CL_SUCCESS) return program;
  if (error == CL_SUCCESS) clReleaseProgram(program);
  return NULL;
}

/* The program of a kernel object: from the binary if it is this device's, else from source. */
static cl_int tw_cl_make_program(tw_cl_kernel* kernel, cl_context context, cl_device_id device,
                                 const unsigned char* bytes, size_t size) {
  const char* source = kernel->table->source;
  cl_int error = CL_SUCCESS;
  if (tw_cl_is_own_binary(source, device, bytes, size))
    kernel->program = tw_cl_load_binary(context, device, bytes + TW_CL_TAG_BYTES, size - TW_CL_TAG_BYTES);
  kernel->is_from_binary = kernel->program != NULL;
  if (kernel->is_from_binary) return CL_SUCCESS;
  kernel->program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
  return error == CL_SUCCESS ? tw_cl_build(kernel->program, device) : error;
}

/* NULL with an OpenCL error code in *error. `bytes`: a binary as the export has it, or NULL. */
static tw_cl_kernel* tw_cl_create(const tw_cl_table* table, cl_context context, cl_device_id device, const void* bytes,
                                  size_t size, cl_int* error) {
  tw_cl_kernel* kernel = (tw_cl_kernel*)calloc(1, sizeof *kernel);
  *error = CL_OUT_OF_HOST_MEMORY;
  if (!kernel) return NULL;
  kernel->table = table;
  kernel->packed = (cl_mem*)calloc((size_t)table->packed_count + 1, sizeof(cl_mem));
  kernel->parts = (cl_mem*)calloc(tw_cl_pointer_count(table), sizeof(cl_mem));
  for (int entry = 0; entry < 2; ++entry) {
    kernel->kernels[entry] = (cl_kernel*)calloc((size_t)table->launch_count[entry] + 1, sizeof(cl_kernel));
  }
  if (kernel->packed && kernel->parts && kernel->kernels[0] && kernel->kernels[1]) {
    *error = tw_cl_make_program(kernel, context, device, (const unsigned char*)bytes, size);
    if (*error == CL_SUCCESS && table->scratch_bytes > 0) {
      kernel->scratch = clCreateBuffer(context, CL_MEM_READ_WRITE, table->scratch_bytes, NULL, error);
    }
    for (int i = 0; i < table->packed_count && *error == CL_SUCCESS; ++i) {
      kernel->packed[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, table->packed_bytes[i], NULL, error);
    }
    for (int entry = 0; entry < 2 && *error == CL_SUCCESS; ++entry) *error = tw_cl_make_kernels(kernel, entry);
  }
  if (*error == CL_SUCCESS) return kernel;
  tw_cl_free(kernel);
  return NULL;
}

/* Enqueues an entry point (0 = prepack, 1 = run) on the buffers of its arguments, in their order. */
static cl_int tw_cl_launch_all(tw_cl_kernel* kernel, int entry, cl_command_queue queue, const cl_mem* arguments) {
  cl_int error = CL_SUCCESS;
  for (int i = 0; i < kernel->table->launch_count[entry] && error == CL_SUCCESS; ++i) {
    const tw_cl_launch* launch = &kernel->table->launches[entry][i];
    for (cl_uint p = 0; p < launch->count && error == CL_SUCCESS; ++p) {
      if (!launch->pointers[p].is_scratch) {
        error = clSetKernelArg(kernel->kernels[entry][i], p, sizeof(cl_mem), &arguments[launch->pointers[p].at]);
      }
    }
    if (error == CL_SUCCESS) {
      error = clEnqueueNDRangeKernel(queue, kernel->kernels[entry][i], 3, NULL, launch->global, launch->local, 0, NULL,
                                     NULL);
    }
  }
  return error;
}
#endif
