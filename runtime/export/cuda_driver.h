/* CUDA for the library of a compiled model: functions of the driver, which is opened when a model is created, so that
 * the library is compiled and linked without <cuda.h> and without a GPU. Declared as far as they are used, by NVIDIA's
 * documented interface of CUDA 12. Then a device of it: its memory, copies and clock, for device_model.h. In C99, for a
 * copy beside each library, where cuda_launcher.h, cuda_graph.h and device_model.h stand behind it.
 */
#ifndef TRACEWRIGHT_CUDA_DRIVER_H
#define TRACEWRIGHT_CUDA_DRIVER_H
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct tw_cuda_context_s* CUcontext;
typedef struct tw_cuda_stream_s* CUstream;
typedef struct tw_cuda_module_s* CUmodule;
typedef struct tw_cuda_function_s* CUfunction;
typedef struct tw_cuda_event_s* CUevent;
typedef struct tw_cuda_graph_s* CUgraph;
typedef struct tw_cuda_graph_node_s* CUgraphNode;
typedef struct tw_cuda_graph_exec_s* CUgraphExec;
typedef struct { /* CUDA_KERNEL_NODE_PARAMS of CUDA 12 */
  CUfunction function;
  unsigned groups[3], threads[3], shared_bytes;
  void **parameters, **extra, *kernel, *context;
} tw_cuda_node;

enum { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2 };
enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8, CU_STREAM_NON_BLOCKING = 1 };

static struct {
  CUresult (*init)(unsigned);
  CUresult (*get_device)(CUdevice*, int);
  CUresult (*retain_context)(CUcontext*, CUdevice);
  CUresult (*release_context)(CUdevice);
  CUresult (*get_context)(CUcontext*);
  CUresult (*set_context)(CUcontext);
  CUresult (*create_stream)(CUstream*, unsigned);
  CUresult (*destroy_stream)(CUstream);
  CUresult (*wait_for_stream)(CUstream);
  CUresult (*allocate)(CUdeviceptr*, size_t);
  CUresult (*release)(CUdeviceptr);
  CUresult (*copy_in)(CUdeviceptr, const void*, size_t, CUstream);
  CUresult (*copy_out)(void*, CUdeviceptr, size_t, CUstream);
  CUresult (*copy)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
  CUresult (*take_host)(void**, size_t, unsigned);
  CUresult (*give_host)(void*);
  CUresult (*load_module)(CUmodule*, const void*);
  CUresult (*unload_module)(CUmodule);
  CUresult (*get_function)(CUfunction*, CUmodule, const char*);
  CUresult (*set_attribute)(CUfunction, int, int);
  CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**,
                     void**);
  CUresult (*create_event)(CUevent*, unsigned);
  CUresult (*destroy_event)(CUevent);
  CUresult (*record_event)(CUevent, CUstream);
  CUresult (*elapsed)(float*, CUevent, CUevent);
  /* Of cuda_graph.h; NULL where the driver is older. */
  CUresult (*is_capturing)(CUstream, int*);
  CUresult (*create_graph)(CUgraph*, unsigned);
  CUresult (*destroy_graph)(CUgraph);
  CUresult (*add_kernel)(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const tw_cuda_node*);
  CUresult (*add_event)(CUgraphNode*, CUgraph, const CUgraphNode*, size_t, CUevent);
  CUresult (*instantiate)(CUgraphExec*, CUgraph, unsigned long long);
  CUresult (*change_kernel)(CUgraphExec, CUgraphNode, const tw_cuda_node*);
  CUresult (*launch_graph)(CUgraphExec, CUstream);
  CUresult (*destroy_executable)(CUgraphExec);
} tw_cu;

/* The names by which cuda_launcher.h calls them. */
#define cuMemAlloc tw_cu.allocate
#define cuMemFree tw_cu.release
#define cuModuleLoadData tw_cu.load_module
#define cuModuleUnload tw_cu.unload_module
#define cuModuleGetFunction tw_cu.get_function
#define cuFuncSetAttribute tw_cu.set_attribute
#define cuLaunchKernel tw_cu.launch

static char tw_driver_problem[160]; /* why there is no driver; "" = there is one */

/* In the library path, and where containers, WSL and NixOS have it. */
static void* tw_driver_library(void) {
  static const char* const names[] = {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
                                      "/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib64-nvidia/libcuda.so.1",
                                      "/run/opengl-driver/lib/libcuda.so.1"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    void* library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library) return library;
  }
  return NULL;
}

static void tw_driver_open(void) {
  const struct {
    const char* name;
    void* to;
  } functions[] = {{"cuInit", &tw_cu.init},
                   {"cuDeviceGet", &tw_cu.get_device},
                   {"cuDevicePrimaryCtxRetain", &tw_cu.retain_context},
                   {"cuDevicePrimaryCtxRelease_v2", &tw_cu.release_context},
                   {"cuCtxGetCurrent", &tw_cu.get_context},
                   {"cuCtxSetCurrent", &tw_cu.set_context},
                   {"cuStreamCreate", &tw_cu.create_stream},
                   {"cuStreamDestroy_v2", &tw_cu.destroy_stream},
                   {"cuStreamSynchronize", &tw_cu.wait_for_stream},
                   {"cuMemAlloc_v2", &tw_cu.allocate},
                   {"cuMemFree_v2", &tw_cu.release},
                   {"cuMemcpyHtoDAsync_v2", &tw_cu.copy_in},
                   {"cuMemcpyDtoHAsync_v2", &tw_cu.copy_out},
                   {"cuMemcpyDtoDAsync_v2", &tw_cu.copy},
                   {"cuMemHostAlloc", &tw_cu.take_host},
                   {"cuMemFreeHost", &tw_cu.give_host},
                   {"cuModuleLoadData", &tw_cu.load_module},
                   {"cuModuleUnload", &tw_cu.unload_module},
                   {"cuModuleGetFunction", &tw_cu.get_function},
                   {"cuFuncSetAttribute", &tw_cu.set_attribute},
                   {"cuLaunchKernel", &tw_cu.launch},
                   {"cuEventCreate", &tw_cu.create_event},
                   {"cuEventDestroy_v2", &tw_cu.destroy_event},
                   {"cuEventRecord", &tw_cu.record_event},
                   {"cuEventElapsedTime", &tw_cu.elapsed}};
  const struct {
    const char* name;
    void* to;
  } newer[] = {{"cuStreamIsCapturing", &tw_cu.is_capturing},
               {"cuGraphCreate", &tw_cu.create_graph},
               {"cuGraphDestroy", &tw_cu.destroy_graph},
               {"cuGraphAddKernelNode_v2", &tw_cu.add_kernel},
               {"cuGraphAddEventRecordNode", &tw_cu.add_event},
               {"cuGraphInstantiateWithFlags", &tw_cu.instantiate},
               {"cuGraphExecKernelNodeSetParams_v2", &tw_cu.change_kernel},
               {"cuGraphLaunch", &tw_cu.launch_graph},
               {"cuGraphExecDestroy", &tw_cu.destroy_executable}};
  void* library = tw_driver_library();
  if (!library) {
    strcpy(tw_driver_problem, "there is no CUDA driver (libcuda.so.1): it comes with the driver of an NVIDIA GPU");
    return;
  }
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; ++i) {
    void* found = dlsym(library, functions[i].name);
    if (!found) snprintf(tw_driver_problem, sizeof tw_driver_problem, "the CUDA driver lacks %s", functions[i].name);
    memcpy(functions[i].to, &found, sizeof found);
  }
  for (size_t i = 0; i < sizeof newer / sizeof newer[0]; ++i) {
    void* found = dlsym(library, newer[i].name);
    memcpy(newer[i].to, &found, sizeof found);
  }
  if (!tw_driver_problem[0] && tw_cu.init(0) != CUDA_SUCCESS)
    strcpy(tw_driver_problem, "the CUDA driver does not start");
}

typedef CUstream tw_queue;
typedef struct {
  CUcontext context, outer; /* outer: the caller's, while a function of the library runs */
  CUdevice device;
  tw_queue queue;
  /* Pinned memory of TW_STAGING_BYTES that all data goes through, of which copies to the device use the first `used`:
   * drivers pin more of other memory than what is copied, and there may be nothing behind it. NULL: there was none. */
  char* staging;
  size_t used;
} tw_device;
typedef CUdeviceptr tw_memory;
enum { TW_STAGING_BYTES = 8 << 20 };

/* Before other calls, on each thread. 0, or the driver's code; so all below. */
static int tw_device_enter(tw_device* device) {
  if (tw_cu.get_context(&device->outer) != CUDA_SUCCESS) device->outer = device->context;
  return tw_cu.set_context(device->context);
}
/* After them. */
static void tw_device_leave(tw_device* device) {
  if (device->outer != device->context) tw_cu.set_context(device->outer);
}
static int tw_device_open(tw_device* device, int index) {
  CUresult error = tw_cu.get_device(&device->device, index);
  if (error == CUDA_SUCCESS) error = tw_cu.retain_context(&device->context, device->device);
  if (error == CUDA_SUCCESS) error = tw_device_enter(device);
  if (error != CUDA_SUCCESS) return error;
  void* staging = NULL;
  device->staging = tw_cu.take_host(&staging, TW_STAGING_BYTES + 65536, 0) == CUDA_SUCCESS ? (char*)staging : NULL;
  return tw_cu.create_stream(&device->queue, CU_STREAM_NON_BLOCKING);
}
static void tw_device_close(tw_device* device) {
  if (device->staging) tw_cu.give_host(device->staging);
  if (device->queue) tw_cu.destroy_stream(device->queue);
  if (device->context) tw_cu.release_context(device->device);
}
static int tw_queue_wait(tw_queue queue) { return tw_cu.wait_for_stream(queue); }

static int tw_memory_take(tw_device* device, size_t bytes, tw_memory* memory) {
  return (void)device, tw_cu.allocate(memory, bytes > 0 ? bytes : 1);
}
static void tw_memory_give(tw_memory memory) { tw_cu.release(memory); }
/* A part of memory, to be given back. */
static int tw_memory_part(tw_memory memory, size_t at, size_t bytes, tw_memory* part) {
  return (void)bytes, *part = memory + at, 0;
}
static void tw_memory_part_give(tw_memory part) { (void)part; }
/* Copies behind what was begun before. What is copied from the host stays there until tw_queue_wait(). */
static int tw_memory_write(tw_device* device, tw_memory memory, const void* from, size_t bytes) {
  int answer = 0;
  if (!device->staging) return bytes > 0 ? tw_cu.copy_in(memory, from, bytes, device->queue) : 0;
  for (size_t at = 0, part; at < bytes && answer == 0; at += part) {
    if (device->used == TW_STAGING_BYTES) {
      answer = tw_queue_wait(device->queue);
      device->used = 0;
    }
    part = bytes - at < TW_STAGING_BYTES - device->used ? bytes - at : TW_STAGING_BYTES - device->used;
    memcpy(device->staging + device->used, (const char*)from + at, part);
    if (answer == 0) answer = tw_cu.copy_in(memory + at, device->staging + device->used, part, device->queue);
    device->used += part;
  }
  return answer;
}
/* Waits for it. */
static int tw_memory_read(tw_device* device, tw_memory memory, size_t at, void* to, size_t bytes) {
  int answer = 0;
  if (!device->staging) return bytes > 0 ? tw_cu.copy_out(to, memory + at, bytes, device->queue) : 0;
  for (size_t done = 0, part; done < bytes && answer == 0; done += part) {
    part = bytes - done < TW_STAGING_BYTES ? bytes - done : TW_STAGING_BYTES;
    answer = tw_cu.copy_out(device->staging, memory + at + done, part, device->queue);
    if (answer == 0) answer = tw_queue_wait(device->queue);
    device->used = 0;
    memcpy((char*)to + done, device->staging, part);
  }
  return answer;
}
static int tw_memory_copy(tw_queue queue, tw_memory from, size_t at, tw_memory to, size_t bytes) {
  return bytes > 0 ? tw_cu.copy(to, from + at, bytes, queue) : 0;
}
/* What a caller's pointer stands for. */
static tw_memory tw_memory_of(const void* pointer) { return (tw_memory)(uintptr_t)pointer; }
static int tw_memory_is_good(const void* pointer) { return pointer && (uintptr_t)pointer % TW_ALIGNMENT == 0; }

/* Points of time in a queue, by the device's clock. */
typedef CUevent tw_mark;
static int tw_mark_take(tw_mark* mark) { return tw_cu.create_event(mark, 0); }
static void tw_mark_give(tw_mark mark) { tw_cu.destroy_event(mark); }
static int tw_mark_set(tw_queue queue, tw_mark* mark) { return tw_cu.record_event(*mark, queue); }
static int tw_mark_seconds(tw_mark from, tw_mark to, double* seconds) {
  float milliseconds = 0;
  int answer = tw_cu.elapsed(&milliseconds, from, to);
  return *seconds = milliseconds * 1e-3, answer;
}
/* A queue whose marks have times, to be given back. */
static int tw_timed_queue_take(tw_device* device, tw_queue* queue) { return *queue = device->queue, 0; }
static void tw_timed_queue_give(tw_queue queue) { (void)queue; }

#define TW_MODEL_TABLE tw_cuda_table
#define TW_MODEL_KERNEL tw_cuda_kernel
#define TW_MODEL_RESULT CUresult
#define TW_MODEL_CREATE(table, of, error) tw_cuda_create(table, error)
#define TW_MODEL_FREE tw_cuda_free
#define TW_MODEL_LAUNCH tw_cuda_launch_all
#endif
