// tracewright db: care of a database: verify, export, import, best, init, copy, remove.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/stored.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/fleet/trial_queue.h"
#include "runtime/store/database_copy.h"
#include "runtime/store/database_exchange.h"
#include "runtime/store/postgres_address.h"
#include "runtime/store/postgres_schema.h"

namespace tw::cli {
namespace {

struct Options {
  std::string database, to, file, task, host;
  SchemaOptions schema;
  std::size_t most = 5;
  bool json = false;
};

int verify(const Options& options) {
  std::optional<Database> database = open_database(options.database, DatabaseMode::Read);
  if (!database) return Environment;
  std::optional<Verification> found = checked(database->verify());
  if (!found) return Environment;
  if (options.json) {
    boost::json::array problems(found->problems.begin(), found->problems.end());
    print_json({{"good", found->good()}, {"rows", found->rows}, {"damaged", found->damaged}, {"problems", problems}});
  } else {
    std::cout << options.database << ": " << found->rows << " good rows, " << found->damaged << " damaged\n";
    for (const std::string& problem : found->problems) std::cout << "  " << problem << "\n";
    if (!found->good()) {
      std::cout << "what can be read is carried into a new database by\n  tracewright db export " << options.database
                << " | tracewright db import NEW.db\n";
    }
  }
  return found->good() ? Ok : TargetMissed;
}

int export_all(const Options& options) {
  std::optional<Database> database = open_database(options.database, DatabaseMode::Read);
  if (!database) return Environment;
  std::ofstream file;
  if (!options.file.empty()) file.open(options.file, std::ios::binary);
  std::ostream& out = options.file.empty() ? std::cout : file;
  if (!out.good()) return say(cat("cannot write ", options.file, ": ", std::strerror(errno))), Environment;
  std::optional<i64> lines = checked(export_records(*database, out));
  out.flush();
  if (!lines || !out.good()) return say("the export is not complete"), Environment;
  say(cat(*lines, " lines"));
  return Ok;
}

int import_all(const Options& options) {
  std::istringstream file;
  if (!options.file.empty()) {
    std::string error;
    std::optional<std::string> text = read_exchange_file(options.file, error);
    if (!text) return say(error), Usage;
    file.str(std::move(*text));
  }
  std::istream& in = options.file.empty() ? std::cin : file;
  std::optional<Database> database = open_database(options.database, DatabaseMode::Write);
  if (!database) return Environment;
  std::optional<ImportReport> report = checked(import_records(*database, in));
  if (!report) return Environment;
  for (const std::string& problem : report->problems) say(problem);
  if (options.json) {
    print_json({{"added", report->added}, {"known", report->known}, {"refused", report->refused}});
  } else {
    say(cat(report->added, " added, ", report->known, " known already, ", report->refused, " refused"));
  }
  return report->refused == 0 ? Ok : TargetMissed;
}

int list_best(const Options& options) {
  std::optional<Database> database = open_database(options.database, DatabaseMode::Read);
  if (!database) return Environment;
  std::optional<std::vector<TaskSummary>> tasks = find_tasks(*database, options.task);
  if (!tasks) return options.task.empty() ? Environment : Usage;
  boost::json::array json;
  std::vector<std::vector<std::string>> rows;
  for (const TaskSummary& task : *tasks) {
    for (const MachineSummary& machine : task.machines) {
      std::optional<std::vector<Record>> best =
          checked(database->best(task.workload, task.target, machine.machine, options.most));
      if (!best) return Environment;
      for (const Record& record : *best) {
        json.push_back(to_json(record));
        rows.push_back({record.task, times_of(record), std::to_string(record.id), std::to_string(record.generation),
                        record.target});
      }
    }
  }
  if (options.json) {
    print_json({{"records", json}});
  } else {
    print_table({"task", "time", "record", "generation", "target"}, rows);
  }
  return Ok;
}

// ---- servers

int make_tables(const std::string& address, const SchemaOptions& options) {
  auto connection = checked(PostgresConnection::open(address));
  if (!connection) return Environment;
  auto notes = checked(make_postgres_schema(*connection, options));
  if (!notes) return Environment;
  for (const std::string& note : *notes) say(cat(address, ": ", note));
  return checked(make_queue_tables(*connection, options)) ? Ok : Environment;
}

int init(const Options& options) {
  if (is_database_address(options.database)) return make_tables(options.database, options.schema);
  say(cat("db init is for a database on a server (postgresql://...); the file ", options.database,
          " is made by the first command that writes to it"));
  return Usage;
}

// Opens the target of a copy; an empty database on a server gets its tables first.
std::optional<Database> open_target(const Options& options) {
  DatabaseResult<Database> opened = Database::open(options.to, DatabaseMode::Write);
  bool has_no_tables = !opened && opened.failure().state == "3F000";
  if (!has_no_tables) return checked(std::move(opened));
  if (make_tables(options.to, options.schema) != Ok) return std::nullopt;
  return open_database(options.to, DatabaseMode::Write);
}

int copy(const Options& options) {
  if (options.to.empty()) return say("db copy needs two databases: FROM and TO"), Usage;
  std::optional<Database> from = open_database(options.database, DatabaseMode::Read);
  if (!from) return Environment;
  std::optional<Database> to = open_target(options);
  if (!to) return Environment;
  std::optional<CopyReport> report = checked(copy_database(*from, *to));
  if (!report) return Environment;
  if (options.json) {
    print_json({{"records", report->records},
                {"known", report->known},
                {"workloads", report->workloads},
                {"models", report->models},
                {"damaged", from->damaged()}});
  } else {
    say(cat(report->records, " records added, ", report->known, " known already, ", report->workloads, " workloads, ",
            report->models, " cost models"));
  }
  if (from->damaged() == 0) return Ok;
  say(cat(from->damaged(), " damaged rows of ", options.database, " were left out"));
  return TargetMissed;
}

int remove_records(const Options& options) {
  if (options.host.empty()) return say("db remove needs --host: whose records are to be removed"), Usage;
  std::optional<Database> database = open_database(options.database, DatabaseMode::Write);
  if (!database) return Environment;
  std::optional<i64> removed = checked(database->remove_host(options.host));
  if (!removed) return Environment;
  if (is_database_address(options.database)) {
    std::optional<TrialQueue> queue = checked(TrialQueue::open(options.database));
    if (!queue || !checked(queue->remove_role(options.host))) return Environment;
  }
  const char* hint = *removed == 0 ? "; --host takes a role, or a host or machine of `show --json`" : "";
  options.json ? print_json({{"removed", *removed}}) : say(cat(*removed, " records removed", hint));
  return Ok;
}

struct Action {
  const char* name;
  const char* help;
  int (*run)(const Options& options);
};
constexpr Action actions[] = {
    {"verify", "read every row and check the file's structure", verify},
    {"export", "records and workloads as lines of JSON, to standard output or --file", export_all},
    {"import", "add what `export` wrote, from standard input or --file; nothing is trusted", import_all},
    {"best", "the fastest records of each task on each machine", list_best},
    {"init", "make the tables on a server and give the roles their rights, or bring them up to date", init},
    {"copy", "carry what DATABASE holds into TO, which may be empty; files and servers, in both directions", copy},
    {"remove", "of a server: remove the records that the machine --host has measured or its role has stored",
     remove_records},
};

}  // namespace

int run_db(int count, char** words) {
  Options options;
  std::string wanted, help = "Care of a database:";
  std::vector<std::string> names;
  for (const Action& action : actions) {
    help += cat("\n  ", action.name, ": ", action.help);
    names.emplace_back(action.name);
  }
  App app("db", help,
          "examples:\n  tracewright db verify tuning.db\n  tracewright db export a.db "
          "| tracewright db import b.db\n  tracewright db init postgresql://owner@db/tw\n"
          "  tracewright db copy tuning.db postgresql://tuner@db/tw");
  app.add_option("ACTION", wanted, join(names, ", ")).required();
  app.add_option("DATABASE", options.database, "the database: a file or an address (postgresql://...)").required();
  app.add_option("TO", options.to, "copy: the database that is copied to");
  app.add_option("--tuner", options.schema.tuner, "init: role that may tune (\"\" = none)");
  app.add_option("--worker", options.schema.worker, "init: role that may store what it measures (\"\" = none)");
  app.add_option("--reader", options.schema.reader, "init: role that may only read (\"\" = none)");
  app.add_flag("--beside-others", options.schema.beside_others, "init: also where there are tables of other programs");
  app.add_option("--host", options.host,
                 "remove: a `host` of `db export`, a `machine` of `show --json`, or the role that stored the records");
  app.add_option("--file", options.file,
                 "file to write or read instead of the standard streams; one that is read may be compressed by gzip");
  app.add_option("--task", options.task, "best: only the task of this name");
  app.add_option("-n,--most", options.most, "best: how many records of each task on each machine");
  app.add_flag("--json", options.json, "print JSON");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  for (const Action& action : actions) {
    if (wanted == action.name) return action.run(options);
  }
  std::string near = closest(wanted, names);
  say(cat("db: unknown action `", wanted, "`", near.empty() ? "" : cat("; did you mean `", near, "`?")));
  return Usage;
}

}  // namespace tw::cli
