#include "dsl/base/files.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "dsl/base/text.h"

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

std::optional<std::string> read_text_file(const std::string& path, std::string& error) {
  std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  auto fail = [&](const std::string& why) { return error = cat("cannot read ", path, ": ", why), std::nullopt; };
  if (!file) return fail(std::strerror(errno));
  constexpr std::size_t most = static_cast<std::size_t>(kMostFileBytes) + 1;
  std::string text(std::size_t{1} << 16, '\0');
  std::size_t size = 0;
  while ((size += std::fread(text.data() + size, 1, text.size() - size, file.get())) == text.size() && size < most)
    text.resize(std::min(2 * size, most));
  if (std::ferror(file.get())) return fail(std::strerror(errno));
  if (size == most) return fail(cat("it has more than ", kMostFileBytes >> 20, " MiB"));
  text.resize(size);
  text.shrink_to_fit();
  return text;
}

std::optional<std::string> find_shared_file(const std::string& name) {
  std::vector<std::filesystem::path> folders;
  std::error_code unreadable;
  Dl_info self{};
  if (const char* named = std::getenv("TRACEWRIGHT_SHARE")) {
    folders = {named};
  } else if (dladdr(reinterpret_cast<const void*>(&find_shared_file), &self) && self.dli_fname) {
    const std::filesystem::path own = std::filesystem::absolute(self.dli_fname, unreadable).parent_path();
    folders = {own / "share/tracewright", own / "../share/tracewright", own / "../../share/tracewright"};
  }
  for (const std::filesystem::path& folder : folders) {
    if (std::filesystem::exists(folder / name, unreadable)) return (folder / name).lexically_normal().string();
  }
  return std::nullopt;
}

}  // namespace tw
