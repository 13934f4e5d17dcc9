#include "cli/stored.h"

#include <boost/json/object.hpp>

#include "cli/open_list.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "sampler/search/trial.h"
#include "sampler/tasks/rebuild.h"

namespace tw::cli {

void say_database_error(const std::string& message) { say(message); }

std::optional<Database> open_database(const std::string& path, DatabaseMode mode) {
  return checked(Database::open(path, mode));
}

std::optional<std::vector<TaskSummary>> find_tasks(Database& database, const std::string& name) {
  std::optional<std::vector<TaskSummary>> all = checked(database.tasks());
  if (!all || name.empty()) return all;
  std::vector<TaskSummary> found;
  std::vector<std::string> names;
  for (const TaskSummary& task : *all) {
    names.push_back(task.task);
    if (task.task == name) found.push_back(task);
  }
  if (!found.empty()) return found;
  is_task_name(name, names, database.path());
  return std::nullopt;
}

namespace {

// What a call has to say, and its value.
template <class T>
T said(T value, const std::string& message) {
  if (!message.empty()) say(message);
  return value;
}

}  // namespace

std::optional<Record> best_record(Database& database, const TaskSummary& task) {
  std::string message;
  std::optional<Record> record = checked(tw::stored_record(database, task, message));
  return said(std::move(record), message);
}

std::optional<Record> best_record(Database& database, const TuneTask& task) {
  std::string message;
  TaskKey key = key_of(task);
  std::optional<Record> record = checked(tw::stored_record(database, key.workload, key.target, message, task.timing));
  return said(std::move(record), message);
}

std::string times_of(const Record& record) {
  // Where both are known, the time by which cold kernels are compared is the cold one.
  bool has_both = record.host.ends_with(kColdCaches) && record.cold > 0;
  return show_times(has_both ? record.median : record.seconds, record.cold);
}

std::optional<TraceFile> open_trace_file(Database& database, const Record& record) {
  std::string error;
  std::optional<TraceFile> file = trace_file_of(database, record, error);
  if (!file) say(cat("record ", record.id, " cannot be read:\n", error));
  return file;
}

std::optional<StoredKernel> best_kernel(Database& database, const TuneTask& task, std::string_view symbol) {
  std::string message;
  std::optional<StoredKernel> kernel = tw::stored_kernel(database, task, symbol, message);
  return said(std::move(kernel), message);
}

boost::json::value to_json(const Record& record) {
  boost::json::object out{
      {"record", record.id}, {"task", record.task}, {"target", record.target}, {"workload", record.workload}};
  out["status"] = record.status;
  out["us"] = record.seconds * 1e6;
  out = with_cold(std::move(out), record.cold);
  out["minimum_us"] = record.minimum * 1e6;
  out["median_us"] = record.median * 1e6;
  out["program"] = record.program;
  out["seed"] = record.seed;
  out["generation"] = record.generation;
  out["created_ms"] = record.created;
  out["version"] = record.version;
  out["host"] = record.host;
  out["error"] = record.error;
  out["trace"] = record.trace;
  return out;
}

}  // namespace tw::cli
