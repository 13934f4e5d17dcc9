/* OpenCL for the library of a compiled model: functions of the ICD loader, which is opened when a model is created, so
 * that the library is compiled and linked without headers and driver. Declared as far as they are used, by the
 * specification of OpenCL 1.2. Then a device of it: its memory and copies, for device_model.h. In C99, for a copy
 * beside each library, where opencl_launcher.h and device_model.h stand behind it.
 */
#ifndef TRACEWRIGHT_OPENCL_DRIVER_H
#define TRACEWRIGHT_OPENCL_DRIVER_H
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool, cl_device_info, cl_build_info, cl_buffer_create_type, cl_profiling_info;
typedef uint64_t cl_flags;
typedef struct tw_cl_platform_s* cl_platform_id;
typedef struct tw_cl_device_s* cl_device_id;
typedef struct tw_cl_context_s* cl_context;
typedef struct tw_cl_queue_s* cl_command_queue;
typedef struct tw_cl_memory_s* cl_mem;
typedef struct tw_cl_program_s* cl_program;
typedef struct tw_cl_kernel_s* cl_kernel;
typedef struct tw_cl_event_s* cl_event;
typedef struct {
  size_t origin, size;
} cl_buffer_region;

enum { CL_SUCCESS = 0, CL_DEVICE_NOT_FOUND = -1, CL_OUT_OF_HOST_MEMORY = -6, CL_FALSE = 0, CL_TRUE = 1 };
enum { CL_MEM_READ_WRITE = 1, CL_BUFFER_CREATE_TYPE_REGION = 0x1220 };
enum { CL_QUEUE_PROFILING_ENABLE = 2, CL_PROFILING_COMMAND_END = 0x1283 };
enum {
  CL_DEVICE_NAME = 0x102B,
  CL_DRIVER_VERSION = 0x102D,
  CL_DEVICE_VERSION = 0x102F,
  CL_DEVICE_EXTENSIONS = 0x1030,
  CL_DEVICE_OPENCL_C_VERSION = 0x103D
};
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFFu

static struct {
  cl_int (*get_platforms)(cl_uint, cl_platform_id*, cl_uint*);
  cl_int (*get_devices)(cl_platform_id, cl_flags, cl_uint, cl_device_id*, cl_uint*);
  cl_int (*get_device_info)(cl_device_id, cl_device_info, size_t, void*, size_t*);
  cl_context (*create_context)(const intptr_t*, cl_uint, const cl_device_id*, void*, void*, cl_int*);
  cl_int (*retain_context)(cl_context);
  cl_int (*release_context)(cl_context);
  cl_command_queue (*create_queue)(cl_context, cl_device_id, cl_flags, cl_int*);
  cl_int (*release_queue)(cl_command_queue);
  cl_program (*create_from_source)(cl_context, cl_uint, const char**, const size_t*, cl_int*);
  cl_program (*create_from_binary)(cl_context, cl_uint, const cl_device_id*, const size_t*, const unsigned char**,
                                   cl_int*, cl_int*);
  cl_int (*build_program)(cl_program, cl_uint, const cl_device_id*, const char*, void*, void*);
  cl_int (*release_program)(cl_program);
  cl_kernel (*create_kernel)(cl_program, const char*, cl_int*);
  cl_int (*set_argument)(cl_kernel, cl_uint, size_t, const void*);
  cl_int (*release_kernel)(cl_kernel);
  cl_mem (*create_buffer)(cl_context, cl_flags, size_t, void*, cl_int*);
  cl_mem (*create_part)(cl_mem, cl_flags, cl_buffer_create_type, const void*, cl_int*);
  cl_int (*release_memory)(cl_mem);
  cl_int (*read_buffer)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void*, cl_uint, const cl_event*, cl_event*);
  cl_int (*write_buffer)(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void*, cl_uint, const cl_event*,
                         cl_event*);
  cl_int (*run_kernel)(cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*, cl_uint,
                       const cl_event*, cl_event*);
  cl_int (*copy_buffer)(cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event*, cl_event*);
  cl_int (*put_marker)(cl_command_queue, cl_uint, const cl_event*, cl_event*);
  cl_int (*get_profiling_info)(cl_event, cl_profiling_info, size_t, void*, size_t*);
  cl_int (*release_event)(cl_event);
  cl_int (*finish)(cl_command_queue);
} tw_cl;

/* The names by which opencl_launcher.h calls them. */
#define clGetDeviceInfo tw_cl.get_device_info
#define clCreateProgramWithSource tw_cl.create_from_source
#define clCreateProgramWithBinary tw_cl.create_from_binary
#define clBuildProgram tw_cl.build_program
#define clReleaseProgram tw_cl.release_program
#define clCreateKernel tw_cl.create_kernel
#define clSetKernelArg tw_cl.set_argument
#define clReleaseKernel tw_cl.release_kernel
#define clCreateBuffer tw_cl.create_buffer
#define clCreateSubBuffer tw_cl.create_part
#define clReleaseMemObject tw_cl.release_memory
#define clEnqueueNDRangeKernel tw_cl.run_kernel

static char tw_driver_problem[160]; /* why there is no driver; "" = there is one */

/* Device number `index`, counted over all platforms; NULL if there are not so many. */
static cl_device_id tw_device_numbered(int index) {
  enum { MOST = 16 };
  cl_platform_id platforms[MOST];
  cl_device_id devices[MOST];
  cl_uint platform_count = 0, count = 0;
  if (index < 0 || tw_cl.get_platforms(MOST, platforms, &platform_count) != CL_SUCCESS) return NULL;
  for (cl_uint p = 0; p < platform_count && p < MOST; ++p) {
    if (tw_cl.get_devices(platforms[p], CL_DEVICE_TYPE_ALL, MOST, devices, &count) != CL_SUCCESS) continue;
    if ((cl_uint)index < count) return index < MOST ? devices[index] : NULL;
    index -= (int)count;
  }
  return NULL;
}

static void tw_driver_open(void) {
  const struct {
    const char* name;
    void* to;
  } functions[] = {{"clGetPlatformIDs", &tw_cl.get_platforms},
                   {"clGetDeviceIDs", &tw_cl.get_devices},
                   {"clGetDeviceInfo", &tw_cl.get_device_info},
                   {"clCreateContext", &tw_cl.create_context},
                   {"clRetainContext", &tw_cl.retain_context},
                   {"clReleaseContext", &tw_cl.release_context},
                   {"clCreateCommandQueue", &tw_cl.create_queue},
                   {"clReleaseCommandQueue", &tw_cl.release_queue},
                   {"clCreateProgramWithSource", &tw_cl.create_from_source},
                   {"clCreateProgramWithBinary", &tw_cl.create_from_binary},
                   {"clBuildProgram", &tw_cl.build_program},
                   {"clReleaseProgram", &tw_cl.release_program},
                   {"clCreateKernel", &tw_cl.create_kernel},
                   {"clSetKernelArg", &tw_cl.set_argument},
                   {"clReleaseKernel", &tw_cl.release_kernel},
                   {"clCreateBuffer", &tw_cl.create_buffer},
                   {"clCreateSubBuffer", &tw_cl.create_part},
                   {"clReleaseMemObject", &tw_cl.release_memory},
                   {"clEnqueueReadBuffer", &tw_cl.read_buffer},
                   {"clEnqueueWriteBuffer", &tw_cl.write_buffer},
                   {"clEnqueueNDRangeKernel", &tw_cl.run_kernel},
                   {"clEnqueueCopyBuffer", &tw_cl.copy_buffer},
                   {"clEnqueueMarkerWithWaitList", &tw_cl.put_marker},
                   {"clGetEventProfilingInfo", &tw_cl.get_profiling_info},
                   {"clReleaseEvent", &tw_cl.release_event},
                   {"clFinish", &tw_cl.finish}};
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    strcpy(tw_driver_problem, "there is no OpenCL loader (libOpenCL.so.1): install ocl-icd-libopencl1 and a driver");
    return;
  }
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; ++i) {
    void* found = dlsym(library, functions[i].name);
    if (!found) snprintf(tw_driver_problem, sizeof tw_driver_problem, "OpenCL lacks %s", functions[i].name);
    memcpy(functions[i].to, &found, sizeof found);
  }
  /* Drivers may start at the first question, and not all of them bear two at a time then. */
  if (!tw_driver_problem[0]) tw_device_numbered(INT_MAX);
}

typedef cl_command_queue tw_queue;
typedef struct {
  cl_context context;
  cl_device_id device;
  tw_queue queue;
} tw_device;
typedef cl_mem tw_memory;

/* 0, or the driver's code; so all below. A device that has a context and a device already, which are a caller's, keeps
 * them. */
static int tw_device_open(tw_device* device, int index) {
  cl_int error = CL_SUCCESS;
  if (device->context) {
    error = tw_cl.retain_context(device->context);
    if (error != CL_SUCCESS) device->context = NULL;
  } else {
    device->device = tw_device_numbered(index);
    if (!device->device) return CL_DEVICE_NOT_FOUND;
    device->context = tw_cl.create_context(NULL, 1, &device->device, NULL, NULL, &error);
  }
  if (error == CL_SUCCESS) device->queue = tw_cl.create_queue(device->context, device->device, 0, &error);
  return error;
}
static void tw_device_close(tw_device* device) {
  if (device->queue) tw_cl.release_queue(device->queue);
  if (device->context) tw_cl.release_context(device->context);
}
/* Before other calls, on each thread. */
static int tw_device_enter(tw_device* device) { return (void)device, 0; }
/* After them. */
static void tw_device_leave(tw_device* device) { (void)device; }
static int tw_queue_wait(tw_queue queue) { return tw_cl.finish(queue); }

static int tw_memory_take(tw_device* device, size_t bytes, tw_memory* memory) {
  cl_int error = CL_SUCCESS;
  *memory = tw_cl.create_buffer(device->context, CL_MEM_READ_WRITE, bytes > 0 ? bytes : 1, NULL, &error);
  return error;
}
static void tw_memory_give(tw_memory memory) { tw_cl.release_memory(memory); }
/* A part of memory, to be given back. */
static int tw_memory_part(tw_memory memory, size_t at, size_t bytes, tw_memory* part) {
  const cl_buffer_region region = {at, bytes > 0 ? bytes : 1};
  cl_int error = CL_SUCCESS;
  *part = tw_cl.create_part(memory, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
  return error;
}
static void tw_memory_part_give(tw_memory part) { tw_cl.release_memory(part); }
/* Copies behind what was begun before. What is copied from the host stays there until tw_queue_wait(). */
static int tw_memory_write(tw_device* device, tw_memory memory, const void* from, size_t bytes) {
  return bytes > 0 ? tw_cl.write_buffer(device->queue, memory, CL_FALSE, 0, bytes, from, 0, NULL, NULL) : 0;
}
static int tw_memory_read(tw_device* device, tw_memory memory, size_t at, void* to, size_t bytes) {
  return bytes > 0 ? tw_cl.read_buffer(device->queue, memory, CL_FALSE, at, bytes, to, 0, NULL, NULL) : 0;
}

static int tw_memory_copy(tw_queue queue, tw_memory from, size_t at, tw_memory to, size_t bytes) {
  return bytes > 0 ? tw_cl.copy_buffer(queue, from, to, at, 0, bytes, 0, NULL, NULL) : 0;
}
/* What a caller's pointer stands for. */
static tw_memory tw_memory_of(const void* pointer) { return (tw_memory)(uintptr_t)pointer; }
static int tw_memory_is_good(const void* pointer) { return pointer != NULL; }

/* Points of time in a queue, by the device's clock. */
typedef cl_event tw_mark;
static int tw_mark_take(tw_mark* mark) { return *mark = NULL, 0; }
static void tw_mark_give(tw_mark mark) {
  if (mark) tw_cl.release_event(mark);
}
static int tw_mark_set(tw_queue queue, tw_mark* mark) {
  tw_mark_give(*mark);
  return *mark = NULL, tw_cl.put_marker(queue, 0, NULL, mark);
}
static int tw_mark_seconds(tw_mark from, tw_mark to, double* seconds) {
  uint64_t begin = 0, end = 0; /* nanoseconds */
  int answer = tw_cl.get_profiling_info(from, CL_PROFILING_COMMAND_END, sizeof begin, &begin, NULL);
  if (answer == CL_SUCCESS) answer = tw_cl.get_profiling_info(to, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
  return *seconds = end > begin ? (double)(end - begin) * 1e-9 : 0, answer;
}
/* A queue whose marks have times, to be given back. */
static int tw_timed_queue_take(tw_device* device, tw_queue* queue) {
  cl_int error = CL_SUCCESS;
  *queue = tw_cl.create_queue(device->context, device->device, CL_QUEUE_PROFILING_ENABLE, &error);
  return error;
}
static void tw_timed_queue_give(tw_queue queue) {
  if (queue) tw_cl.release_queue(queue);
}

/* OpenCL 1.2 has no graphs: each run enqueues its launches. */
typedef struct {
  int none;
} tw_graph;
static void tw_graph_free(tw_graph* graph) { (void)graph; }
static int tw_graph_begin(tw_graph* graph, size_t most) { return (void)graph, (void)most, -1; }
static int tw_graph_add(tw_graph* graph, const void* kernel, const tw_memory* arguments) {
  return (void)graph, (void)kernel, (void)arguments, -1;
}
static int tw_graph_add_mark(tw_graph* graph, tw_mark mark) { return (void)graph, (void)mark, -1; }
static int tw_graph_finish(tw_graph* graph) { return (void)graph, -1; }
static int tw_graph_change(tw_graph* graph, size_t first, const void* kernel, const tw_memory* arguments) {
  return (void)graph, (void)first, (void)kernel, (void)arguments, -1;
}
static int tw_graph_launch(tw_graph* graph, tw_queue queue) { return (void)graph, (void)queue, -1; }
static int tw_queue_is_recorded(tw_queue queue) { return (void)queue, 0; }

#define TW_MODEL_TABLE tw_cl_table
#define TW_MODEL_KERNEL tw_cl_kernel
#define TW_MODEL_RESULT cl_int
#define TW_MODEL_CREATE(table, of, error) tw_cl_create(table, (of)->context, (of)->device, NULL, 0, error)
#define TW_MODEL_FREE tw_cl_free
#define TW_MODEL_LAUNCH tw_cl_launch_all
#endif
