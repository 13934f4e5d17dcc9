#include "cli/library_name.h"

#include <cctype>
#include <filesystem>

namespace tw::cli {

std::string library_name_of(const std::string& path) {
  std::string name = std::filesystem::path(path).stem().string();
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "k" + name;
  return name;
}

}  // namespace tw::cli
