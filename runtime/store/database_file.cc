#include "runtime/store/database_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "dsl/base/text.h"

namespace tw {
namespace {

constexpr std::size_t header_bytes = 100;  // of an SQLite file; see "Database File Format" of SQLite, section 1.3
constexpr char magic[16] = "SQLite format 3";

DatabaseFile refused(std::string problem) { return {DatabaseFileState::Refused, std::move(problem)}; }

std::string folder_of(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

DatabaseFile examine_missing(const std::string& path) {
  std::string folder = folder_of(path);
  struct stat info{};
  if (stat(folder.c_str(), &info) != 0)
    return refused(cat("cannot make database ", path, ": there is no folder ", folder, "; make it first"));
  if (!S_ISDIR(info.st_mode)) return refused(cat("cannot make database ", path, ": ", folder, " is not a folder"));
  if (access(folder.c_str(), W_OK) != 0)
    return refused(
        cat("cannot make database ", path, ": folder ", folder, " is read-only (", std::strerror(errno), ")"));
  std::string log = path + "-wal";
  if (stat(log.c_str(), &info) == 0 && info.st_size > 0 && access(path.c_str(), F_OK) != 0) {
    return refused(
        cat("cannot make database ", path, ": ", log, " is left of a database of that name; move it away first"));
  }
  return {DatabaseFileState::Missing, ""};
}

unsigned big_endian(const unsigned char* at) {
  return static_cast<unsigned>(at[0]) << 24 | static_cast<unsigned>(at[1]) << 16 | static_cast<unsigned>(at[2]) << 8 |
         at[3];
}

DatabaseFile examine_header(const std::string& path, const std::array<unsigned char, header_bytes>& header,
                            std::size_t size) {
  if (size == 0) return refused(cat("database ", path, " is empty; remove the file, then a new database is made"));
  if (size < header_bytes || std::memcmp(header.data(), magic, sizeof magic) != 0) {
    return refused(
        cat("database ", path, " is damaged, or is not a database: its first bytes are not those of an SQLite file"));
  }
  constexpr std::size_t user_version = 60, application_id = 68;
  if (big_endian(&header[application_id]) != kDatabaseApplicationId) {
    return refused(cat("database ", path, " is an SQLite file of another program, or its header is damaged"));
  }
  unsigned format = big_endian(&header[user_version]);
  if (!is_known_format(format)) return refused(unknown_format(path, format));
  return {DatabaseFileState::Usable, ""};
}

}  // namespace

std::string unknown_format(const std::string& path, unsigned format) {
  return cat("database ", path, " has format ", format, ", this tracewright reads formats ", kOldestDatabaseFormat,
             " to ", kDatabaseFormat, "; use the version of tracewright that wrote it");
}

DatabaseFile examine_database_file(const std::string& path, bool to_write) {
  if (path.empty()) return refused("the name of the database is empty");
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 && errno == ENOENT) return examine_missing(path);
  if (file < 0) return refused(cat("cannot open database ", path, ": ", std::strerror(errno)));
  struct stat info{};
  std::array<unsigned char, header_bytes> header{};
  bool regular = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  ssize_t size = regular ? pread(file, header.data(), header.size(), 0) : 0;
  int problem = errno;
  close(file);
  if (!regular) return refused(cat("database ", path, " is not a regular file"));
  if (size < 0) return refused(cat("cannot read database ", path, ": ", std::strerror(problem)));
  DatabaseFile examined = examine_header(path, header, static_cast<std::size_t>(size));
  if (examined.state != DatabaseFileState::Usable || !to_write) return examined;
  if (access(path.c_str(), W_OK) != 0)
    return refused(cat("database ", path, " is read-only (", std::strerror(errno), "); name another one to write to"));
  std::string folder = folder_of(path);
  if (access(folder.c_str(), W_OK) != 0)
    return refused(cat("database ", path, " lies in folder ", folder, ", which is read-only (", std::strerror(errno),
                       "); copy it to another place"));
  return examined;
}

bool publish_database_file(const std::string& temporary, const std::string& path) {
  bool done = link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST;
  bool no_links = !done && (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS);
  if (no_links) return rename(temporary.c_str(), path.c_str()) == 0;  // a file system without links: last one wins
  int problem = errno;
  unlink(temporary.c_str());
  if (int folder = open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); folder >= 0) {
    fsync(folder);  // the name must survive a power cut as the content does
    close(folder);
  }
  errno = problem;
  return done;
}

}  // namespace tw
