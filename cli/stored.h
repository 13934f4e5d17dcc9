// Databases as the subcommands use them: opened with a message on failure, tasks and records found
// by what a person types.
#pragma once
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/store/database.h"
#include "runtime/store/trace_file.h"
#include "sampler/search/tune.h"
#include "sampler/tasks/best_kernel.h"

namespace tw::cli {

// nullopt after a message.
std::optional<Database> open_database(const std::string& path, DatabaseMode mode);

// The value of a database call, or nullopt after a message.
template <class T>
std::optional<T> checked(DatabaseResult<T> result);
void say_database_error(const std::string& message);

// The tasks of a database whose name is `name` ("" = all), fastest knowledge last. nullopt after a
// message, also if there is none.
std::optional<std::vector<TaskSummary>> find_tasks(Database& database, const std::string& name);

// The fastest one by tw::stored_record; nullopt after a message.
std::optional<Record> best_record(Database& database, const TaskSummary& task);
std::optional<Record> best_record(Database& database, const TuneTask& task);
// Its times as tables show them: "812.3 us, cold 1.42 ms".
std::string times_of(const Record& record);

// The trace file of a record; nullopt after a message.
std::optional<TraceFile> open_trace_file(Database& database, const Record& record);

// The fastest one by tw::stored_kernel; nullopt after a message.
std::optional<StoredKernel> best_kernel(Database& database, const TuneTask& task, std::string_view symbol);

boost::json::value to_json(const Record& record);

template <class T>
std::optional<T> checked(DatabaseResult<T> result) {
  if (result) return std::move(*result);
  say_database_error(result.error());
  return std::nullopt;
}

}  // namespace tw::cli
