// The tuning database: workloads, records of trials, cost models and runs, in one SQLite file or, for many machines, on
// a PostgreSQL server. Used by the search (to resume and to learn), the commands and the tests. It measures nothing,
// and does not parse what it stores. store.h is what both have in common; docs/fleet.md is about servers.
//
// Safety: a call that returned success is on disk. `kill -9` of this program or of the server at any moment loses
// nothing of it; a power cut neither, if the disk honours flushes (a file: write-ahead log, synchronous = FULL, about
// 0.2 ms a record on an SSD). Several processes may write at once. Every row carries a digest that is checked whenever
// it is read: a damaged row is left out and counted, never returned. Damage to the structure of a file is refused when
// it is opened for writing; opened for reading, what can be reached is returned.
//
// A file that is removed, renamed or replaced while it is open for writing is noticed by the next call that writes. All
// that the database holds is then written into a new file of that name, and take_notice() says so; or, where another
// file has the name, beside it, which is an error of that call.
//
// A server that went away is an error of the call at hand, whose outcome is not known then; the next call connects
// again.
//
// A Database belongs to one thread at a time; open a second one for another thread. It must not be
// used after fork().
#pragma once
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/store/database_result.h"
#include "runtime/store/record.h"

namespace tw {

enum class DatabaseMode { Read, Write };  // Write makes the file if there is none; it never makes tables on a server

// Which records; "" = all.
struct RecordFilter {
  std::string workload, target;
  i64 after = 0;                    // only records with a larger id
  std::function<bool()> stop = {};  // asked before each record: once true, no further one is read
  std::string not_target = {};      // no records of this one
};

// The trials of a task on one machine (machine_of).
struct MachineSummary {
  std::string machine;
  i64 trials = 0, failed = 0;
  double best_seconds = 0;  // 0 = none was ok
  // Ids: of the fastest, the first and the latest one that was ok.
  i64 best_record = 0, first_good = 0, last_good = 0;
};

// What `show` says about one task.
struct TaskSummary {
  std::string workload, target, task;    // task: the name in the latest record
  i64 trials = 0, failed = 0;            // on all machines
  std::vector<MachineSummary> machines;  // in the order of their first record; their times are not compared

  // The machine whose best kernel is taken: `own` if it has a good trial, else the machine of the latest good trial.
  // Null if there is none.
  const MachineSummary* chosen(const std::string& own) const;
};

struct Verification {
  i64 rows = 0;                       // that are good
  i64 damaged = 0;                    // that are not
  std::vector<std::string> problems;  // of the structure, as SQLite or the server words them; at most 20
  bool good() const { return damaged == 0 && problems.empty(); }
};

class DatabaseStore;

class Database {
 public:
  // `path`: of a file, or the address of a database on a server (postgresql://...).
  static DatabaseResult<Database> open(const std::string& path, DatabaseMode mode);
  Database(Database&&) noexcept;
  Database& operator=(Database&&) noexcept;
  ~Database();

  const std::string& path() const;  // as it was opened
  // True while the file of this name is the one that is open; false once a file had to be written beside it.
  bool is_in_place() const;
  // What happened to the file since the last call, for the user; "" if nothing did.
  std::string take_notice();

  // Stores a workload's text unless it is there. The same hash with another text (other names)
  // keeps the first text.
  DatabaseStatus add_workload(const std::string& hash, const std::string& text);
  // nullopt-like: "" if it is not there (or damaged).
  DatabaseResult<std::string> workload_text(const std::string& hash);
  DatabaseResult<std::vector<WorkloadText>> workloads();

  // Stores a trial and returns its id. The id, and `created` if it is 0, are set here; times are
  // rounded to picoseconds, `error` is cut to 4 KiB of UTF-8.
  DatabaseResult<i64> add_record(const Record& record);
  // Stores many in one transaction: all or none.
  DatabaseStatus add_records(const std::vector<Record>& records);
  // Calls `visit` for every good record that fits, in the order in which they were stored.
  DatabaseStatus visit(const RecordFilter& filter, const std::function<void(Record&)>& visit);
  // All trials of a task, failed ones too: a resumed search measures none of them again.
  DatabaseResult<std::vector<Record>> all(const std::string& workload, const std::string& target, i64 after = 0);
  // The n fastest good trials of a machine, fastest first; equal times in stored order.
  DatabaseResult<std::vector<Record>> best(const std::string& workload, const std::string& target,
                                           const std::string& machine, std::size_t n);
  // By id. An id that is not there, or is damaged, is an error.
  DatabaseResult<Record> record(i64 id);
  // How many trials a task has on a machine, failed and damaged ones too; not those whose code was known.
  DatabaseResult<i64> trials(const std::string& workload, const std::string& target, const std::string& machine);
  // One line per workload and target, in the order of their first record.
  DatabaseResult<std::vector<TaskSummary>> tasks();
  // The id of the latest record, whoever stored it; 0 = there is none.
  DatabaseResult<i64> latest_record();

  // One model per name and target; saving replaces it. Loading gives an empty `data` if there is
  // none of that version.
  DatabaseStatus save_model(const std::string& name, const std::string& target, i64 version, const std::string& data);
  DatabaseResult<StoredModel> load_model(const std::string& name, const std::string& target, i64 version);
  DatabaseResult<std::vector<StoredModel>> models();

  // `started` is set if it is 0. Returns the id for finish_run.
  DatabaseResult<i64> begin_run(const StoredRun& run);
  DatabaseStatus finish_run(i64 id, const std::string& outcome);
  DatabaseResult<std::vector<StoredRun>> runs();

  // How many different rows were found damaged since this Database was opened.
  i64 damaged() const;
  // Reads everything and checks the file's structure.
  DatabaseResult<Verification> verify();
  // Removes what a host or machine (machine_of) has measured and returns how many records that were. Only of a server,
  // and for its owner.
  DatabaseResult<i64> remove_host(const std::string& host);

 private:
  explicit Database(std::unique_ptr<DatabaseStore> store);
  std::unique_ptr<DatabaseStore> store_;
};

}  // namespace tw
