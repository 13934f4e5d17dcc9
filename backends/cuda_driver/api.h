// The CUDA driver's functions, found at run time (dlopen of libcuda.so.1), so that nothing needs a driver or the CUDA
// toolkit to build or start. Used by device.cc, and by the GPU benchmark (native.h). Declared here as far as they are
// used, by NVIDIA's documented interface of CUDA 12.
#pragma once
#include <cstddef>
#include <string>

namespace tw::cuda {

using Code = int;                    // CUresult; 0 = good
using Handle = void*;                // of a context, stream, module, function, event, graph
using Address = unsigned long long;  // CUdeviceptr

// Result codes that are told apart.
enum : Code { OutOfMemory = 2 };

enum Attribute : int { L2Bytes = 38, ComputeMajor = 75, ComputeMinor = 76 };  // CUdevice_attribute
enum FunctionAttribute : int { DynamicSharedBytes = 8 };                      // CUfunction_attribute
enum CaptureMode : int { ThreadLocal = 1 };                                   // CUstreamCaptureMode
constexpr unsigned kNonBlockingStream = 1;

// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3], block[3];
  unsigned dynamic_shared_bytes;
  Handle stream;
  const void* attributes;
  unsigned attribute_count;
};

struct Api {
  Code (*init)(unsigned flags);
  Code (*driver_version)(int* version);
  Code (*error_string)(Code code, const char** text);
  Code (*device_count)(int* count);
  Code (*device_get)(int* device, int index);
  Code (*device_name)(char* name, int bytes, int device);
  Code (*device_attribute)(int* value, int attribute, int device);
  Code (*device_memory)(std::size_t* bytes, int device);
  Code (*retain_context)(Handle* context, int device);
  Code (*release_context)(int device);
  Code (*set_context)(Handle context);
  Code (*stream_create)(Handle* stream, unsigned flags);
  Code (*stream_destroy)(Handle stream);
  Code (*stream_synchronize)(Handle stream);
  Code (*begin_capture)(Handle stream, int mode);
  Code (*end_capture)(Handle stream, Handle* graph);
  Code (*graph_instantiate)(Handle* executable, Handle graph, unsigned long long flags);
  Code (*graph_launch)(Handle executable, Handle stream);
  Code (*graph_executable_destroy)(Handle executable);
  Code (*graph_destroy)(Handle graph);
  Code (*event_create)(Handle* event, unsigned flags);
  Code (*event_record)(Handle event, Handle stream);
  Code (*event_synchronize)(Handle event);
  Code (*event_elapsed)(float* milliseconds, Handle begin, Handle end);
  Code (*event_destroy)(Handle event);
  Code (*allocate)(Address* address, std::size_t bytes);
  Code (*release)(Address address);
  Code (*copy_in)(Address to, const void* from, std::size_t bytes);
  Code (*device_bus_id)(char* to, int length, int device);  // may be null
  Code (*copy_out)(void* to, Address from, std::size_t bytes);
  Code (*allocate_host)(void** memory, std::size_t bytes, unsigned flags);
  Code (*release_host)(void* memory);
  Code (*set_bytes)(Address to, unsigned char value, std::size_t bytes);
  Code (*set_bytes_async)(Address to, unsigned char value, std::size_t bytes, Handle stream);
  Code (*copy_async)(Address to, Address from, std::size_t bytes, Handle stream);
  Code (*load_module)(Handle* module, const void* image);
  Code (*unload_module)(Handle module);
  Code (*find_function)(Handle* function, Handle module, const char* name);
  Code (*set_function_attribute)(Handle function, int attribute, int value);
  Code (*launch)(const LaunchConfig* config, Handle function, void** parameters, void** extra);
};

// The loaded functions after cuInit, or nullptr with the reason in `error`. Loads once.
const Api* api(std::string& error);

}  // namespace tw::cuda
