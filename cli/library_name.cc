#include "cli/library_name.h"

#include <cctype>
#include <filesystem>

namespace tw::cli {

std::string library_name_of(const std::string& path) {
  std::string name = std::filesystem::path(path).stem().string();
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  // tw_thread_pool.h and the like lie beside the library, and tw_pool_run is called with it.
  bool is_taken = name.starts_with("tw_");
  if (name.empty() || is_taken || std::isdigit(static_cast<unsigned char>(name[0]))) name = "k" + name;
  return name;
}

}  // namespace tw::cli
