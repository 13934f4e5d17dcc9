// What a path is, before SQLite is let near it: judged by reading 100 bytes, so that a file that is
// not ours stays untouched. Used by sqlite_store.cc only.
#pragma once
#include <string>

namespace tw {

inline constexpr unsigned kDatabaseApplicationId = 0x54574442;  // "TWDB", in the header of the file
// user_version in the header of the file. Format 2, whose records have no times with cold caches, is read, too.
inline constexpr unsigned kDatabaseFormat = 3, kOldestDatabaseFormat = 2, kFormatWithColdTimes = 3;
inline bool is_known_format(unsigned format) { return format >= kOldestDatabaseFormat && format <= kDatabaseFormat; }

enum class DatabaseFileState { Missing, Usable, Refused };

struct DatabaseFile {
  DatabaseFileState state = DatabaseFileState::Refused;
  std::string problem;  // a sentence, if refused
};
// `to_write`: the caller will write, so the folder must allow it too.
DatabaseFile examine_database_file(const std::string& path, bool to_write);

// The sentence for a format that this build does not read.
std::string unknown_format(const std::string& path, unsigned format);

// Gives the finished file `temporary` the name `path` unless that name is taken. False = neither
// worked; errno says why.
bool publish_database_file(const std::string& temporary, const std::string& path);

}  // namespace tw
