#include "bench/list_of.h"

#include <cstdio>

#include "runtime/console/output.h"

namespace tw::bench {

std::optional<LoadedList> list_of(const std::string& path, const std::string& rules) {
  std::string messages;
  std::optional<LoadedList> list = load_list(path, messages, rules);
  std::fputs(messages.c_str(), stderr);
  return list;
}

std::optional<Database> database_of(const std::string& path, DatabaseMode mode) {
  DatabaseResult<Database> database = Database::open(path, mode);
  if (database) return std::move(*database);
  say(database.error());
  return std::nullopt;
}

}  // namespace tw::bench
