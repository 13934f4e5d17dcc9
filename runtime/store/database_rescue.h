// Saves a database whose file was removed, renamed or replaced while it is open. For sqlite_store.cc only.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

#include "runtime/store/sqlite_rows.h"

namespace tw {

// Tells files apart whatever their names are: device and inode.
struct FileIdentity {
  dev_t device;
  ino_t number;
  bool operator==(const FileIdentity&) const = default;
};
std::optional<FileIdentity> identity_of(const std::string& path);

// Writes all that the open database holds into a new file: at `path` if there is no file of that name, else beside it.
struct Rescued {
  std::string path;     // "" if no file could be made
  std::string problem;  // why it is not called `path`; a part of a sentence
};
Rescued rescue(Sql& sql, const std::string& path);

}  // namespace tw
