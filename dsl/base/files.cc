#include "dsl/base/files.h"

#include <fstream>
#include <iterator>

namespace tw {

std::optional<std::string> read_whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  try {
    std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file.bad()) return text;
  } catch (const std::ios_base::failure&) {  // what libstdc++ does about a folder
  }
  return std::nullopt;
}

}  // namespace tw
