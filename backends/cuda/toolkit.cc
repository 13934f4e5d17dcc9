#include "backends/cuda/toolkit.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "dsl/base/text.h"

namespace tw::cuda {
namespace {

std::vector<std::string> library_folders() {
  std::vector<std::string> homes, out = {""};
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(name)) homes.push_back(home);
  }
  std::vector<std::string> found = toolkit_homes();
  homes.insert(homes.end(), found.begin(), found.end());
  for (const std::string& home : homes) out.insert(out.end(), {cat(home, "/lib64/"), cat(home, "/lib/")});
  return out;
}

}  // namespace

std::vector<std::string> toolkit_homes(const std::string& folder) {
  std::vector<std::tuple<int, int, std::string>> versions;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    int major = 0, minor = 0;
    if (std::sscanf(entry.path().filename().c_str(), "cuda-%d.%d", &major, &minor) >= 1)
      versions.emplace_back(major, minor, entry.path().string());
  }
  std::sort(versions.rbegin(), versions.rend());
  std::vector<std::string> out = {folder + "/cuda"};
  for (const auto& version : versions) out.push_back(std::get<2>(version));
  return out;
}

void* open_toolkit_library(const std::vector<std::string>& names, int mode, std::string& path, std::string& error) {
  for (const std::string& folder : library_folders()) {
    for (const std::string& name : names) {
      path = folder + name;
      if (void* library = dlopen(path.c_str(), mode)) return library;
    }
  }
  error = cat(names.back(), " was not found in the library path, $CUDA_HOME, $CUDA_PATH or /usr/local/cuda*");
  return nullptr;
}

}  // namespace tw::cuda
