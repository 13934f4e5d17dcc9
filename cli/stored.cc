#include "cli/stored.h"

#include <boost/json/object.hpp>
#include <map>

#include "cli/loaded_list.h"
#include "cli/output.h"
#include "cli/rebuild.h"
#include "dsl/base/text.h"
#include "sampler/search/trial.h"

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

const std::string& own_machine(const std::string& target) {
  static std::map<std::string, std::string> known;
  auto [at, is_new] = known.try_emplace(target);
  Source source{"target", target};
  Diagnostics diagnostics(source);
  std::optional<Target> parsed = is_new ? parse_target(target, 0, diagnostics) : std::nullopt;
  if (parsed) at->second = machine_of(measuring_host(*parsed, worker_options(*parsed).device));
  return at->second;
}

std::optional<Record> best_record(Database& database, const TaskSummary& task) {
  const std::string& own = own_machine(task.target);
  const MachineSummary* machine = task.chosen(own);
  if (!machine) return Record{};
  if (machine->machine != own) say(cat(task.task, ": measured on another machine (", machine->machine, "); `tracewright tune` measures it on this one"));
  return checked(database.record(machine->best_record));
}

std::optional<Record> best_record(Database& database, const std::string& workload,
                                  const std::string& target) {
  std::optional<std::vector<TaskSummary>> tasks = checked(database.tasks());
  if (!tasks) return std::nullopt;
  for (const TaskSummary& task : *tasks) {
    if (task.workload == workload && task.target == target) return best_record(database, task);
  }
  return Record{};
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
