#include "backends/opencl/pocl_cache.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "dsl/base/files.h"
#include "dsl/base/text.h"

namespace tw::opencl {
namespace {

namespace fs = std::filesystem;

// "" where it is not set or empty.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// As PoCL's pocl_cache_init_topdir() chooses it.
fs::path cache_folder() {
  if (std::string own = variable("POCL_CACHE_DIR"); !own.empty()) return own;
  if (std::string caches = variable("XDG_CACHE_HOME"); !caches.empty()) return fs::path(caches) / "pocl";
  std::string home = variable("HOME");
  return home.empty() ? fs::path("/tmp/pocl") : fs::path(home) / ".cache" / "pocl";
}

// 0 if files can be made in a folder, or it can be created; else why not (errno). It is not created: PoCL gives it
// permissions of its own.
int why_not_writable(const fs::path& folder) {
  std::error_code error;
  fs::path nearest = fs::absolute(folder, error);
  while (!fs::exists(nearest, error) && nearest.has_relative_path()) nearest = nearest.parent_path();
  if (!fs::is_directory(nearest, error)) return ENOTDIR;
  return access(nearest.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

// The file of a driver for the loader holds the name of its library.
bool is_of_pocl(const fs::path& icd) {
  return read_whole_file(icd.string()).value_or("").find("pocl") != std::string::npos;
}

}  // namespace

std::string pocl_cache_problem() {
  fs::path folder = cache_folder();
  // Compiled kernels are one level below what is its own by name.
  int error = why_not_writable(variable("POCL_CACHE_DIR").empty() ? folder / "kcache" : folder);
  if (error == 0) return "";
  return cat("PoCL cannot write its cache of compiled kernels, ", folder.string(), " (", std::strerror(error),
             "); set POCL_CACHE_DIR to a folder that can be written");
}

bool pocl_is_installed() {
  std::string told = variable("OCL_ICD_VENDORS");
  fs::path drivers = told.empty() ? "/etc/OpenCL/vendors" : told;
  std::error_code error;
  if (!fs::is_directory(drivers, error)) return is_of_pocl(drivers);
  for (const fs::directory_entry& entry : fs::directory_iterator(drivers, error)) {
    if (entry.path().extension() == ".icd" && is_of_pocl(entry.path())) return true;
  }
  return false;
}

void forget_empty_pocl_cache() {
  if (variable("POCL_CACHE_DIR").empty()) unsetenv("POCL_CACHE_DIR");
}

}  // namespace tw::opencl
