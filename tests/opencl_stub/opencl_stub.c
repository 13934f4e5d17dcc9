/* An OpenCL device that compiles nothing, for tests of how kernels are compiled: it is what TW_STUB_CL_VERSION (CL_DEVICE_OPENCL_C_VERSION) and
 * TW_STUB_CL_EXTENSIONS say, keeps "device" memory in the host's, and refuses every program and binary; the log of the compiler, also on standard error, is
 * the options that it was called with. TW_STUB_CL_PLATFORMS: "PoCL" = a platform of that name stands before its own, "" = there is none. In place of the loader: the functions that the worker and exported hosts call.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPTIONS = 256 };
static char options_used[MOST_OPTIONS];
static int thing; /* what handles point to that nobody looks behind */
#define HANDLE ((void*)&thing)

static cl_int give(const void* from, size_t bytes, size_t room, void* to, size_t* needed) {
  if (needed) *needed = bytes;
  if (to && room < bytes) return CL_INVALID_VALUE;
  if (to) memcpy(to, from, bytes);
  return CL_SUCCESS;
}
static cl_int give_text(const char* text, size_t room, void* to, size_t* needed) { return give(text, strlen(text) + 1, room, to, needed); }
static const char* setting(const char* name) { return getenv(name) ? getenv(name) : ""; }

static int pocl; /* what the handle of the other platform points to */
cl_int clGetPlatformIDs(cl_uint room, cl_platform_id* platforms, cl_uint* count) {
  const char* which = getenv("TW_STUB_CL_PLATFORMS");
  cl_uint all = !which ? 1 : strcmp(which, "PoCL") == 0 ? 2 : 0;
  for (cl_uint i = 0; i < room && i < all; ++i) platforms[i] = i + 1 < all ? (void*)&pocl : HANDLE;
  if (count) *count = all;
  return CL_SUCCESS;
}
cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t room, void* to, size_t* needed) {
  return (void)what, give_text((void*)platform == (void*)&pocl ? "Portable Computing Language" : "stub", room, to, needed);
}
cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id* devices, cl_uint* count) {
  (void)platform, (void)type;
  if (room > 0) devices[0] = HANDLE;
  if (count) *count = 1;
  return CL_SUCCESS;
}
cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t room, void* to, size_t* needed) {
  (void)device;
  if (what == CL_DEVICE_OPENCL_C_VERSION) return give_text(setting("TW_STUB_CL_VERSION"), room, to, needed);
  if (what == CL_DEVICE_EXTENSIONS) return give_text(setting("TW_STUB_CL_EXTENSIONS"), room, to, needed);
  return give_text("stub", room, to, needed);
}
cl_context clCreateContext(const cl_context_properties* properties, cl_uint count, const cl_device_id* devices,
                           void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*), void* data, cl_int* error) {
  (void)properties, (void)count, (void)devices, (void)notify, (void)data;
  return *error = CL_SUCCESS, HANDLE;
}
cl_int clReleaseContext(cl_context context) { return (void)context, CL_SUCCESS; }
cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int* error) {
  (void)context, (void)device, (void)properties;
  return *error = CL_SUCCESS, HANDLE;
}
cl_int clReleaseCommandQueue(cl_command_queue queue) { return (void)queue, CL_SUCCESS; }
cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char** texts, const size_t* bytes, cl_int* error) {
  (void)context, (void)count, (void)texts, (void)bytes;
  return *error = CL_SUCCESS, HANDLE;
}
cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id* devices, const size_t* bytes,
                                     const unsigned char** binaries, cl_int* status, cl_int* error) {
  (void)context, (void)count, (void)devices, (void)bytes, (void)binaries, (void)status;
  return fprintf(stderr, "binary refused\n"), *error = CL_INVALID_BINARY, NULL;
}
cl_int clGetProgramInfo(cl_program program, cl_program_info what, size_t room, void* to, size_t* needed) {
  return (void)program, (void)what, (void)room, (void)to, (void)needed, CL_INVALID_PROGRAM;
}
cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id* devices, const char* options,
                      void(CL_CALLBACK* notify)(cl_program, void*), void* data) {
  (void)program, (void)count, (void)devices, (void)notify, (void)data;
  snprintf(options_used, sizeof options_used, "options [%s]", options ? options : "");
  fprintf(stderr, "%s\n", options_used);
  return CL_BUILD_PROGRAM_FAILURE;
}
cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what, size_t room, void* to, size_t* needed) {
  return (void)program, (void)device, (void)what, give_text(options_used, room, to, needed);
}
cl_int clReleaseProgram(cl_program program) { return (void)program, CL_SUCCESS; }
cl_kernel clCreateKernel(cl_program program, const char* name, cl_int* error) {
  return (void)program, (void)name, *error = CL_INVALID_PROGRAM_EXECUTABLE, NULL;
}
cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void* value) {
  return (void)kernel, (void)index, (void)bytes, (void)value, CL_INVALID_KERNEL;
}
cl_int clReleaseKernel(cl_kernel kernel) { return (void)kernel, CL_SUCCESS; }
cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void* from, cl_int* error) {
  (void)context, (void)flags;
  void* memory = malloc(bytes);
  if (memory && from) memcpy(memory, from, bytes);
  if (error) *error = memory ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
  return memory;
}
cl_mem clCreateSubBuffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type, const void* region, cl_int* error) {
  return (void)buffer, (void)flags, (void)type, (void)region, *error = CL_INVALID_OPERATION, NULL;
}
cl_int clReleaseMemObject(cl_mem buffer) { return free(buffer), CL_SUCCESS; }
cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool wait, size_t at, size_t bytes, void* to, cl_uint count,
                           const cl_event* events, cl_event* event) {
  (void)queue, (void)wait, (void)count, (void)events, (void)event;
  return memcpy(to, (char*)buffer + at, bytes), CL_SUCCESS;
}
cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool wait, size_t at, size_t bytes, const void* from, cl_uint count,
                            const cl_event* events, cl_event* event) {
  (void)queue, (void)wait, (void)count, (void)events, (void)event;
  return memcpy((char*)buffer + at, from, bytes), CL_SUCCESS;
}
cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void* pattern, size_t pattern_bytes, size_t at, size_t bytes, cl_uint count,
                           const cl_event* events, cl_event* event) {
  (void)queue, (void)count, (void)events, (void)event;
  for (size_t i = 0; i < bytes; ++i) ((char*)buffer)[at + i] = ((const char*)pattern)[i % pattern_bytes];
  return CL_SUCCESS;
}
cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_at, size_t to_at, size_t bytes, cl_uint count, const cl_event* events,
                           cl_event* event) {
  (void)queue, (void)count, (void)events, (void)event;
  return memcpy((char*)to + to_at, (char*)from + from_at, bytes), CL_SUCCESS;
}
cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions, const size_t* offset, const size_t* global,
                              const size_t* local, cl_uint count, const cl_event* events, cl_event* event) {
  (void)queue, (void)kernel, (void)dimensions, (void)offset, (void)global, (void)local, (void)count, (void)events, (void)event;
  return CL_INVALID_KERNEL;
}
cl_int clFinish(cl_command_queue queue) { return (void)queue, CL_SUCCESS; }
cl_int clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t room, void* to, size_t* needed) {
  return (void)event, (void)what, (void)room, (void)to, (void)needed, CL_PROFILING_INFO_NOT_AVAILABLE;
}
cl_int clReleaseEvent(cl_event event) { return (void)event, CL_SUCCESS; }
