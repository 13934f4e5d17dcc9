// What becomes of a database whose file was removed, renamed or replaced while it is open. The inside of database.cc.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>

#include "runtime/sqlite_rows.h"

namespace tw {

// Which file it is, whatever it is called.
struct FileIdentity {
  dev_t device;
  ino_t number;
  bool operator==(const FileIdentity&) const = default;
};
std::optional<FileIdentity> identity_of(const std::string& path);

// All that the open database holds, in a new file: `path` if nothing has that name, else one beside it.
struct Rescued {
  std::string path;     // "" if no file could be made
  std::string problem;  // why it is not called `path`; a part of a sentence
};
Rescued rescue(Sql& sql, const std::string& path);

}  // namespace tw
