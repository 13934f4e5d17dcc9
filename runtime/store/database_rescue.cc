#include "runtime/store/database_rescue.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tw {
namespace {

constexpr const char* kBesides[] = {"-journal", "-wal", "-shm"};

// "" or what went wrong.
std::string copy_into(Sql& sql, const std::string& path) {
  try {
    Sql copy(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    SQLite::Backup backup(copy, sql);
    return backup.executeStep(-1) == SQLITE_DONE ? "" : "the database is locked";
  } catch (const SQLite::Exception& problem) {
    return problem.what();
  }
}

}  // namespace

std::optional<FileIdentity> identity_of(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino};
}

Rescued rescue(Sql& sql, const std::string& path) {
  std::string beside = cat(path, ".rescued-", getpid());
  if (std::string problem = copy_into(sql, beside); !problem.empty()) {
    for (const char* suffix : kBesides) unlink((beside + suffix).c_str());
    unlink(beside.c_str());
    return {"", problem};
  }
  if (identity_of(path)) return {beside, "another file has its name"};
  // Removes the journal of the old file, which SQLite would apply to the new one.
  for (const char* suffix : kBesides) unlink((path + suffix).c_str());
  // A hard link, because it fails if another process has made the file meanwhile.
  if (link(beside.c_str(), path.c_str()) != 0 && (errno == EEXIST || rename(beside.c_str(), path.c_str()) != 0))
    return {beside, std::strerror(errno)};
  unlink(beside.c_str());
  return {path, ""};
}

}  // namespace tw
