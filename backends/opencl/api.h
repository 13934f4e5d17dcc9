// The OpenCL functions that are used, found in the ICD loader at run time: the program starts without OpenCL. For this
// folder only.
#pragma once
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>

namespace tw::opencl {

struct Api {
  decltype(&clGetPlatformIDs) get_platform_ids;
  decltype(&clGetPlatformInfo) get_platform_info;
  decltype(&clGetDeviceIDs) get_device_ids;
  decltype(&clGetDeviceInfo) get_device_info;
  decltype(&clCreateContext) create_context;
  decltype(&clReleaseContext) release_context;
  decltype(&clCreateCommandQueue) create_command_queue;
  decltype(&clReleaseCommandQueue) release_command_queue;
  decltype(&clCreateProgramWithSource) create_program;
  decltype(&clBuildProgram) build_program;
  decltype(&clGetProgramBuildInfo) get_program_build_info;
  decltype(&clGetProgramInfo) get_program_info;
  decltype(&clReleaseProgram) release_program;
  decltype(&clCreateKernel) create_kernel;
  decltype(&clSetKernelArg) set_kernel_arg;
  decltype(&clReleaseKernel) release_kernel;
  decltype(&clCreateBuffer) create_buffer;
  decltype(&clCreateSubBuffer) create_sub_buffer;
  decltype(&clReleaseMemObject) release_memory;
  decltype(&clEnqueueReadBuffer) read_buffer;
  decltype(&clEnqueueWriteBuffer) write_buffer;
  decltype(&clEnqueueFillBuffer) fill_buffer;
  decltype(&clEnqueueCopyBuffer) copy_buffer;
  decltype(&clEnqueueNDRangeKernel) run_kernel;
  decltype(&clFinish) finish;
  decltype(&clGetEventProfilingInfo) get_profiling_info;
  decltype(&clReleaseEvent) release_event;
};

// The loaded functions, or nullptr with the reason in `error`. Loads once.
const Api* api(std::string& error);

}  // namespace tw::opencl
