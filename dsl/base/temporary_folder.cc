#include "dsl/base/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "dsl/base/text.h"

namespace tw {

TemporaryFolder::TemporaryFolder(const std::string& purpose) {
  std::error_code none;
  std::filesystem::path parent = std::filesystem::temp_directory_path(none);
  std::string pattern = (parent / cat("tracewright-", purpose, "-XXXXXX")).string();
  if (none)
    problem_ = cat("there is no folder for temporary files: ", none.message());
  else if (!mkdtemp(pattern.data()))
    problem_ = cat("cannot make the folder ", pattern, ": ", std::strerror(errno));
  else
    path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace tw
