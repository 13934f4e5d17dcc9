// TaskCurves: the tuning curves of a database into which others write. Each read costs what is new, however much there
// is. Used by the page of a fleet.
#pragma once
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sampler/report/report.h"

namespace tw {

class TaskCurves {
 public:
  // At first, tasks with a record among so many of the latest ones; later, all that get new records.
  static constexpr i64 kRecentRecords = 2000;

  // Reads what was stored since the last call. After an error, the next call goes on where this one ended.
  DatabaseStatus read(Database& database);
  // Its tasks have trials, curves and roofs; those with the latest records come first. Nothing of decisions.
  Report report() const;

 private:
  using Key = std::pair<std::string, std::string>;  // workload and target
  struct Followed {
    TaskReport task;
    i64 latest = 0;             // record
    bool is_described = false;  // its work and roof are known, or known to be unknown
  };
  using Tasks = std::map<std::tuple<std::string, std::string, std::string>, Followed>;  // and machine
  void add(Tasks& tasks, const Record& record) const;
  DatabaseStatus read_history(Database& database, const Key& key);

  Report report_ = begin_report();  // its roofs; the tasks are below
  Tasks tasks_;
  std::set<Key> known_, unread_;  // unread_: their records up to last_ have not been counted
  i64 last_ = -1;                 // record
};

}  // namespace tw
