#include "backends/cuda/toolkit.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <tuple>

#include "dsl/base/text.h"

namespace fs = std::filesystem;

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
  const char* path = std::getenv("PATH");
  for (const std::string& folder : python_library_folders(path ? path : "")) out.push_back(folder + "/");
  return out;
}

std::vector<fs::path> children(const fs::path& folder, std::string_view prefix = "") {
  std::vector<fs::path> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(prefix)) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<std::string> python_library_folders(std::string_view path) {
  std::vector<fs::path> prefixes;
  std::error_code error;
  std::istringstream folders{std::string(path)};
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && fs::exists(fs::path(folder) / "python3", error))
      prefixes.push_back(fs::path(folder).parent_path());
  }
  prefixes.insert(prefixes.end(), {"/usr/local", "/usr"});
  if (const char* home = std::getenv("HOME")) prefixes.push_back(fs::path(home) / ".local");
  std::vector<std::string> out;
  for (const fs::path& prefix : prefixes) {
    for (const fs::path& python : children(prefix / "lib", "python3")) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const fs::path& package : children(python / packages / "nvidia")) {
          std::string folder = (package / "lib").string();
          if (fs::is_directory(folder, error) && std::find(out.begin(), out.end(), folder) == out.end())
            out.push_back(folder);
        }
      }
    }
  }
  return out;
}

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
  std::string refused;
  for (const std::string& folder : library_folders()) {
    for (const std::string& name : names) {
      path = folder + name;
      if (void* library = dlopen(path.c_str(), mode)) return library;
      std::error_code none;
      if (!folder.empty() && refused.empty() && fs::exists(path, none)) refused = dlerror();
    }
  }
  error =
      cat(names.back(),
          " was not found in the library path, $CUDA_HOME, $CUDA_PATH, /usr/local/cuda* or NVIDIA's Python packages");
  if (!refused.empty()) error = cat(names.back(), " cannot be used: ", refused);
  return nullptr;
}

}  // namespace tw::cuda
