// Task lists and databases as benchmarks open them: what is wrong goes to standard error.
#pragma once
#include <optional>
#include <string>

#include "runtime/store/database.h"
#include "sampler/tasks/load_list.h"

namespace tw::bench {

// load_list; nullopt after messages.
std::optional<LoadedList> list_of(const std::string& path, const std::string& rules = "");

// nullopt after a message.
std::optional<Database> database_of(const std::string& path, DatabaseMode mode);

}  // namespace tw::bench
