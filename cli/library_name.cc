#include "cli/library_name.h"

#include <filesystem>

#include "dsl/base/text.h"

namespace tw::cli {

std::string library_name_of(const std::string& path) {
  std::string name = c_identifier(std::filesystem::path(path).stem().string());
  // tw_thread_pool.h and the like lie beside the library, and tw_pool_run is called with it.
  return name.starts_with("tw_") ? "k" + name : name;
}

}  // namespace tw::cli
