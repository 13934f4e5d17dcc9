// Where the libraries of a CUDA toolkit lie on this machine. For NVRTC, and the libraries of the GPU benchmark.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tw::cuda {

// Folders of this one that hold a toolkit: `cuda`, then `cuda-13.0`, `cuda-12.9`, ... side by side, newest first; none
// of them needs to be the default.
std::vector<std::string> toolkit_homes(const std::string& folder = "/usr/local");

// Folders with libraries that NVIDIA's Python packages have installed, as PyTorch's do (`nvidia/*/lib` of
// site-packages): those of each `python3` in the folders of `path`, which is $PATH, and of the system.
std::vector<std::string> python_library_folders(std::string_view path);

// The first of these libraries that the library path, $CUDA_HOME, $CUDA_PATH, /usr/local/cuda* or a Python package has,
// opened with dlopen's `mode`, and its path as it was found ("libnvrtc.so.13" from the library path). Null with why in
// `error`: that of the loader, where a file is there.
void* open_toolkit_library(const std::vector<std::string>& names, int mode, std::string& path, std::string& error);

}  // namespace tw::cuda
