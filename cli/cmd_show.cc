// tracewright show: what a database holds.
#include <fmt/core.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>
#include <map>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/stored.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::cli {
namespace {

struct Options {
  std::string database, task, best, output;
  i64 record = 0;
  bool history = false, failures = false, json = false;
};

int show_tasks(Database& database, const Options& options) {
  std::optional<std::vector<TaskSummary>> tasks = find_tasks(database, options.task);
  if (!tasks) return options.task.empty() ? Environment : Usage;
  std::vector<std::vector<std::string>> rows;
  boost::json::array json;
  bool all_own = true;
  for (const TaskSummary& task : *tasks) {
    for (const MachineSummary& machine : task.machines) {
      std::optional<Record> best = machine.best_record ? checked(database.record(machine.best_record)) : Record{};
      if (!best) return Environment;
      bool is_cold = machine.machine == own_machine(task.target, Timing::Cold);
      bool is_own = is_cold || machine.machine == own_machine(task.target);
      all_own = all_own && is_own && !is_cold;
      rows.push_back({task.task, best->id ? times_of(*best) : show_time(machine.best_seconds),
                      std::to_string(machine.trials), std::to_string(machine.failed),
                      best->id ? std::to_string(best->id) : "-", task.target,
                      is_own ? (is_cold ? "this one, cold caches" : "this one") : machine.machine});
      json.push_back(with_cold({{"task", task.task},
                                {"target", task.target},
                                {"workload", task.workload},
                                {"machine", machine.machine},
                                {"is_this_machine", is_own},
                                {"trials", machine.trials},
                                {"failed", machine.failed},
                                {"best_us", machine.best_seconds * 1e6},
                                {"best_record", best->id}},
                               best->cold));
    }
  }
  if (options.json) {
    print_json({{"database", database.path()}, {"tasks", json}});
  } else if (rows.empty()) {
    say(cat(database.path(), " holds no records yet; `tracewright tune` stores some"));
  } else {
    std::vector<std::string> columns = {"task", "best", "trials", "failed", "record", "target", "machine"};
    if (all_own) {
      columns.pop_back();
      for (auto& row : rows) row.pop_back();
    }
    print_table(columns, rows);
  }
  return Ok;
}

// The trials of each task that were faster than all before on their machine (--history), or those that failed
// (--failures).
int show_trials(Database& database, const Options& options) {
  std::optional<std::vector<TaskSummary>> tasks = find_tasks(database, options.task);
  if (!tasks) return options.task.empty() ? Environment : Usage;
  std::vector<std::vector<std::string>> rows;
  boost::json::array json;
  for (const TaskSummary& task : *tasks) {
    std::optional<std::vector<Record>> records = checked(database.all(task.workload, task.target));
    if (!records) return Environment;
    struct Seen {
      i64 trials = 0;
      double best = 0;
    };
    std::map<std::string, Seen> by_machine;
    for (const Record& record : *records) {
      if (!record.is_trial()) continue;
      auto& [trial, best] = by_machine[machine_of(record.host)];
      ++trial;
      bool is_better = record.ok() && (best == 0 || record.seconds < best);
      if (options.failures ? record.ok() : !is_better) continue;
      if (is_better) best = record.seconds;
      rows.push_back({task.task, std::to_string(trial), std::to_string(record.id), std::to_string(record.generation),
                      options.failures ? record.status : times_of(record), options.failures ? record.error : ""});
      json.push_back(with_cold({{"task", task.task},
                                {"trial", trial},
                                {"record", record.id},
                                {"generation", record.generation},
                                {"machine", machine_of(record.host)},
                                {"status", record.status},
                                {"us", record.seconds * 1e6},
                                {"error", record.error}},
                               record.cold));
    }
  }
  if (options.json) {
    print_json({{"database", database.path()}, {"trials", json}});
  } else {
    print_table({"task", "trial", "record", "generation", options.failures ? "failure" : "best so far", ""}, rows);
  }
  return Ok;
}

int show_record(Database& database, const Options& options) {
  std::optional<Record> record = checked(database.record(options.record));
  if (!record) return Usage;
  if (options.json) return print_json(to_json(*record)), Ok;
  std::optional<TraceFile> file = open_trace_file(database, *record);
  if (!file) return Environment;
  std::string head = cat("# record ", record->id, " of task ", record->task, ": ",
                         record->ok() ? times_of(*record) : cat(record->status, ", ", record->error),
                         "\n# measured on ", record->host, "\n");
  return write_output(options.output, head + print_trace_file(*file)) ? Ok : Environment;
}

int write_best(Database& database, const Options& options) {
  std::optional<std::vector<TaskSummary>> tasks = find_tasks(database, options.best);
  if (!tasks) return Usage;
  if (tasks->size() > 1)
    say(cat("`", options.best, "` names ", tasks->size(), " workloads or targets; this is the latest"));
  std::optional<Record> best = best_record(database, tasks->back());
  if (!best) return Environment;
  if (!best->id)
    return say(cat("no trial of ", options.best, " succeeded; `tracewright show --failures` lists why")), TargetMissed;
  std::optional<TraceFile> file = open_trace_file(database, *best);
  if (!file) return Environment;
  return write_output(options.output, print_trace_file(*file)) ? Ok : Environment;
}

}  // namespace

int run_show(int count, char** words) {
  Options options;
  App app("show", "What a database holds: its tasks with their best kernels, their history, one record.",
          "examples:\n  tracewright show tuning.db\n  tracewright show tuning.db --record 17\n"
          "  tracewright show tuning.db --best gemm --output gemm.tw");
  app.add_option("DATABASE", options.database, "the database that tune wrote").required();
  app.add_option("--task", options.task, "only the task of this name");
  app.add_option("--record", options.record, "one record as a trace file (with --json: all of it)");
  app.add_option("--best", options.best, "write the trace file of the best kernel of this task");
  app.add_option("--output", options.output, "file to write to, instead of standard output");
  app.add_flag("--history", options.history, "the trials that were faster than all before");
  app.add_flag("--failures", options.failures, "the trials that failed, and why");
  app.add_flag("--json", options.json, "print JSON");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  std::optional<Database> database = open_database(options.database, DatabaseMode::Read);
  if (!database) return Environment;
  int code = options.record                        ? show_record(*database, options)
             : !options.best.empty()               ? write_best(*database, options)
             : options.history || options.failures ? show_trials(*database, options)
                                                   : show_tasks(*database, options);
  if (database->damaged() > 0)
    say(cat(database->damaged(), " damaged rows were left out; `tracewright db verify ", options.database,
            "` says more"));
  return code;
}

}  // namespace tw::cli
