#include "backends/opencl/api.h"

#include <dlfcn.h>

#include "backends/opencl/pocl_cache.h"
#include "dsl/base/text.h"

namespace tw::opencl {
namespace {

struct Loading {
  Api api{};
  std::string error;

  Loading() {
    forget_empty_pocl_cache();
    void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      error =
          "there is no OpenCL loader (libOpenCL.so.1); install ocl-icd-libopencl1 and a driver such as pocl-opencl-icd";
      return;
    }
    auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (!function) error = cat("libOpenCL.so.1 has no ", name, "; OpenCL 1.2 is needed");
    };
    load(api.get_platform_ids, "clGetPlatformIDs");
    load(api.get_platform_info, "clGetPlatformInfo");
    load(api.get_device_ids, "clGetDeviceIDs");
    load(api.get_device_info, "clGetDeviceInfo");
    load(api.create_context, "clCreateContext");
    load(api.release_context, "clReleaseContext");
    load(api.create_command_queue, "clCreateCommandQueue");
    load(api.release_command_queue, "clReleaseCommandQueue");
    load(api.create_program, "clCreateProgramWithSource");
    load(api.build_program, "clBuildProgram");
    load(api.get_program_build_info, "clGetProgramBuildInfo");
    load(api.get_program_info, "clGetProgramInfo");
    load(api.release_program, "clReleaseProgram");
    load(api.create_kernel, "clCreateKernel");
    load(api.set_kernel_arg, "clSetKernelArg");
    load(api.release_kernel, "clReleaseKernel");
    load(api.create_buffer, "clCreateBuffer");
    load(api.create_sub_buffer, "clCreateSubBuffer");
    load(api.release_memory, "clReleaseMemObject");
    load(api.read_buffer, "clEnqueueReadBuffer");
    load(api.write_buffer, "clEnqueueWriteBuffer");
    load(api.fill_buffer, "clEnqueueFillBuffer");
    load(api.copy_buffer, "clEnqueueCopyBuffer");
    load(api.run_kernel, "clEnqueueNDRangeKernel");
    load(api.finish, "clFinish");
    load(api.get_profiling_info, "clGetEventProfilingInfo");
    load(api.release_event, "clReleaseEvent");
  }
};

}  // namespace

const Api* api(std::string& error) {
  static const Loading loading;
  error = loading.error;
  return error.empty() ? &loading.api : nullptr;
}

}  // namespace tw::opencl
