// Where the libraries of a CUDA toolkit lie on this machine. For NVRTC, and the libraries of the GPU benchmark.
#pragma once
#include <string>
#include <vector>

namespace tw::cuda {

// Folders of this one that hold a toolkit: `cuda`, then `cuda-13.0`, `cuda-12.9`, ... side by side, newest first; none of them needs to be the default.
std::vector<std::string> toolkit_homes(const std::string& folder = "/usr/local");

// The first of these libraries that the library path, $CUDA_HOME, $CUDA_PATH or /usr/local/cuda* has, opened with dlopen's `mode`, and its path as it was
// found ("libnvrtc.so.13" from the library path). Null with why in `error`.
void* open_toolkit_library(const std::vector<std::string>& names, int mode, std::string& path, std::string& error);

}  // namespace tw::cuda
