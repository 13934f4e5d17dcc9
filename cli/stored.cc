#include "cli/stored.h"

#include <boost/json/object.hpp>

#include "cli/loaded_list.h"
#include "cli/output.h"
#include "cli/rebuild.h"
#include "dsl/base/text.h"

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
  std::string near = closest(name, names);
  say(cat("no task `", name, "` in ", database.path(),
          near.empty() ? cat("; there are: ", join(names, ", "))
                       : cat("; did you mean `", near, "`?")));
  return std::nullopt;
}

std::optional<Record> best_record(Database& database, const std::string& workload,
                                  const std::string& target) {
  std::optional<std::vector<Record>> best = checked(database.best(workload, target, 1));
  if (!best) return std::nullopt;
  return best->empty() ? Record{} : best->front();
}

std::optional<TraceFile> open_trace_file(Database& database, const Record& record) {
  std::string error;
  std::optional<TraceFile> file = trace_file_of(database, record, error);
  if (!file) say(cat("record ", record.id, " cannot be read:\n", error));
  return file;
}

std::optional<StoredKernel> best_kernel(Database& database, const TuneTask& task, std::string_view symbol) {
  TaskKey key = key_of(task);
  std::optional<Record> best = best_record(database, key.workload, key.target);
  if (!best) return std::nullopt;
  if (!best->id) return say(cat(task.name, ": no kernel in ", database.path(), "; `tracewright tune` finds some")), std::nullopt;
  std::optional<TraceFile> file = open_trace_file(database, *best);
  if (!file) return std::nullopt;
  std::string error;
  std::optional<Rebuilt> rebuilt = rebuild(task.program, file->trace, task.target, error);
  std::optional<Kernel> kernel = rebuilt ? compile(*rebuilt, task.target, symbol, error) : std::nullopt;
  if (!kernel) return say(cat(task.name, ": ", error)), std::nullopt;
  return StoredKernel{std::move(*best), std::move(*file), std::move(*kernel)};
}

boost::json::value to_json(const Record& record) {
  boost::json::object out{{"record", record.id},
                          {"task", record.task},
                          {"target", record.target},
                          {"workload", record.workload}};
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
