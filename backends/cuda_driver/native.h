// What lies behind a device of backends/device.h when it is a CUDA one, for code that calls the driver, or libraries on
// top of it, itself: the GPU benchmark, which times our kernels and cuBLAS in one stream. Workers do without.
#pragma once
#include "backends/cuda_driver/api.h"
#include "backends/device.h"

namespace tw::cuda {

Handle stream_of(device::Device& device);
Address address_of(const device::Memory& memory);
// "sm_80" of the device; attributes by number of CUdevice_attribute, 0 where the driver does not know one.
std::string arch_of(device::Device& device);
int attribute_of(device::Device& device, int attribute);
// Puts one run of a kernel into the stream and does not wait. 0, or the driver's error code.
Code enqueue(device::LoadedKernel& kernel);

}  // namespace tw::cuda
