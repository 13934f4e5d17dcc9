#include "backends/cuda_driver/api.h"

#include <dlfcn.h>

#include <type_traits>

#include "dsl/base/text.h"

namespace tw::cuda {
namespace {

struct Loading {
  Api api{};
  std::string error;

  Loading() {
    void* library = open_driver();
    if (!library) return;
    load_all(library);
    if (!error.empty()) return;
    if (Code code = api.init(0); code != 0) {
      const char* text = nullptr;
      api.error_string(code, &text);
      error = cat("the CUDA driver does not start: ", text ? text : "error", " (", code, ")");
    }
  }

 private:
  // The oldest CUDA whose driver has every function.
  static constexpr const char* kNeeded = "; a driver for CUDA 12 or newer is needed";

  // In the library path, and where containers, WSL and NixOS have it.
  void* open_driver() {
    std::string refused;
    for (const char* folder :
         {"", "/usr/local/nvidia/lib64/", "/usr/lib/wsl/lib/", "/usr/lib64-nvidia/", "/run/opengl-driver/lib/"}) {
      std::string path = cat(folder, "libcuda.so.1");
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
      std::string why = dlerror();
      if (why.find("No such file") == std::string::npos && refused.empty()) refused = why;
    }
    error = refused.empty() ? "there is no CUDA driver (libcuda.so.1); it comes with the driver of an NVIDIA GPU: sudo "
                              "apt install nvidia-driver"
                            : cat("the CUDA driver cannot be opened: ", refused);
    return nullptr;
  }

  void load_all(void* library) {
    auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (!function && error.empty()) error = cat("libcuda.so.1 has no ", name, kNeeded);
    };
    load(api.init, "cuInit");
    load(api.driver_version, "cuDriverGetVersion");
    load(api.error_string, "cuGetErrorString");
    api.device_bus_id = reinterpret_cast<decltype(api.device_bus_id)>(dlsym(library, "cuDeviceGetPCIBusId"));
    load(api.device_count, "cuDeviceGetCount");
    load(api.device_get, "cuDeviceGet");
    load(api.device_name, "cuDeviceGetName");
    load(api.device_attribute, "cuDeviceGetAttribute");
    load(api.device_memory, "cuDeviceTotalMem_v2");
    load(api.retain_context, "cuDevicePrimaryCtxRetain");
    load(api.release_context, "cuDevicePrimaryCtxRelease_v2");
    load(api.set_context, "cuCtxSetCurrent");
    load(api.stream_create, "cuStreamCreate");
    load(api.stream_destroy, "cuStreamDestroy_v2");
    load(api.stream_synchronize, "cuStreamSynchronize");
    load(api.begin_capture, "cuStreamBeginCapture_v2");
    load(api.end_capture, "cuStreamEndCapture");
    load(api.graph_instantiate, "cuGraphInstantiateWithFlags");
    load(api.graph_launch, "cuGraphLaunch");
    load(api.graph_executable_destroy, "cuGraphExecDestroy");
    load(api.graph_destroy, "cuGraphDestroy");
    load(api.event_create, "cuEventCreate");
    load(api.event_record, "cuEventRecord");
    load(api.event_synchronize, "cuEventSynchronize");
    load(api.event_elapsed, "cuEventElapsedTime");
    load(api.event_destroy, "cuEventDestroy_v2");
    load(api.allocate, "cuMemAlloc_v2");
    load(api.release, "cuMemFree_v2");
    load(api.copy_in, "cuMemcpyHtoD_v2");
    load(api.copy_out, "cuMemcpyDtoH_v2");
    load(api.allocate_host, "cuMemHostAlloc");
    load(api.release_host, "cuMemFreeHost");
    load(api.set_bytes, "cuMemsetD8_v2");
    load(api.set_bytes_async, "cuMemsetD8Async");
    load(api.copy_async, "cuMemcpyDtoDAsync_v2");
    load(api.load_module, "cuModuleLoadData");
    load(api.unload_module, "cuModuleUnload");
    load(api.find_function, "cuModuleGetFunction");
    load(api.set_function_attribute, "cuFuncSetAttribute");
    load(api.launch, "cuLaunchKernelEx");
  }
};

}  // namespace

const Api* api(std::string& error) {
  static const Loading loading;
  error = loading.error;
  return error.empty() ? &loading.api : nullptr;
}

}  // namespace tw::cuda
