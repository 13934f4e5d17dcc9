// Where a Database keeps its rows: a file (sqlite_store.cc) or a server (postgres_store.cc). The inside of database.cc.
// Both check the digest of every row that they read; what has a damaged one is left out and counted.
//
// What is not about rows is done in front of it, by Database: checking and cleaning what is stored, setting times.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/store/database.h"

namespace tw {

class DatabaseStore {
 public:
  virtual ~DatabaseStore() = default;
  virtual const std::string& path() const = 0;
  virtual bool is_in_place() const { return true; }
  virtual std::string take_notice() { return ""; }
  virtual i64 damaged() const = 0;

  virtual DatabaseStatus add_workload(const std::string& hash, const std::string& text) = 0;
  virtual DatabaseResult<std::vector<WorkloadText>> workloads(const std::string& hash) = 0;  // "" = all
  // In one transaction; gives the id of the last one. Ids are given in the order of `records`.
  virtual DatabaseResult<i64> add_records(std::vector<Record> records) = 0;
  virtual DatabaseStatus visit(const RecordFilter& filter, const std::function<void(Record&)>& visit) = 0;
  virtual DatabaseResult<Record> record(i64 id) = 0;
  virtual DatabaseResult<i64> trials(const std::string& workload, const std::string& target,
                                     const std::string& machine) = 0;
  virtual DatabaseResult<i64> latest_record() = 0;
  // In place of the one with its name and target.
  virtual DatabaseStatus save_model(const StoredModel& model) = 0;
  virtual DatabaseResult<std::vector<StoredModel>> models(const std::string& name,
                                                          const std::string& target) = 0;  // "" = all
  virtual DatabaseResult<i64> add_run(const StoredRun& run) = 0;
  virtual DatabaseStatus finish_run(i64 id, i64 finished, const std::string& outcome) = 0;
  virtual DatabaseResult<std::vector<StoredRun>> runs() = 0;
  virtual DatabaseResult<Verification> verify() = 0;
  virtual DatabaseResult<i64> remove_host(const std::string& host) = 0;

  // By reading all records that may fit. A store with indices does better.
  virtual DatabaseResult<std::vector<Record>> best(const std::string& workload, const std::string& target,
                                                   const std::string& machine, std::size_t n);
  virtual DatabaseResult<std::vector<TaskSummary>> tasks();
};

}  // namespace tw
