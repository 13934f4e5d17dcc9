// Results of programs, so that an experiment can be repeated without measuring, and so that a program which several
// arms find is measured once and has one time. A text file that is only appended to, so that an experiment goes on
// where it was stopped. Its lines are
//   # rates ...                                  what the machine that measured is fast at
//   workload,target,program,status,seconds       a result
//   workload,target,,first in turn,0             the times of the task that were measured in turn before are void
//   workload,target,program,in turn,seconds,TRACE
//       its time beside the best of the other arms (in_turn.h), 0: it has none; TRACE has tabs for ends of lines, and
//       is left out, with the comma, where it is not known
//   workload,target,,took,ARM,SEARCH,trials,seed,tuning,search,training,measured     the seconds of an arm's search
#pragma once
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "costmodel/machine_rates.h"
#include "runtime/store/record.h"

namespace tw::bench {

// How long one search took when its programs were measured, in seconds: all of it, and of that proposing candidates and
// training the cost model. What was known before was not measured, which takes no time.
struct SearchSeconds {
  double tuning = 0, search = 0, training = 0;
  i64 measured = 0;  // trials that were measured
};

class StoredResults {
 public:
  // The results of a task by the hash of the program.
  using OfTask = std::map<std::string, Record>;

  // Reads the file if there is one; gzip is read, too, but not written. `error` names what is wrong with it.
  static std::unique_ptr<StoredResults> open(const std::string& path, std::string& error);

  const OfTask& of(const std::string& workload, const std::string& target);
  // Keeps a result and appends it to the file. False if the file cannot be written.
  bool add(const Record& record);

  // The times of a task's programs that were measured in turn, in one run: only those of one run can be compared. With
  // its trace a program can be measured again together with others.
  struct InTurn {
    double seconds = 0;
    std::optional<std::string> trace;  // "" for the untuned program; nullopt: not stored
    bool operator==(const InTurn&) const = default;
  };
  using Times = std::map<std::string, InTurn>;
  const Times& in_turn(const std::string& workload, const std::string& target);
  // Takes the place of those that were there. False if the file cannot be written.
  bool set_in_turn(const std::string& workload, const std::string& target, const Times& times);

  // The seconds of a search that was stored by its arm, what that does, number of trials and seed; null if it was not.
  struct SearchKey {
    std::string workload, target, arm;
    std::string search;  // a hash of all that the candidates follow from
    i64 trials;
    u64 seed;
  };
  const SearchSeconds* took(const SearchKey& key) const;
  // Takes the place of those that were there. False if the file cannot be written.
  bool set_took(const SearchKey& key, const SearchSeconds& seconds);

  // The rates of the machine that measured: the draft model needs them, so the search depends on them.
  const MachineRates& rates() const { return rates_; }
  bool has_rates() const { return has_rates_; }
  bool set_rates(const MachineRates& rates);
  // The target that all results of a workload are of; nullopt if there is none, or several.
  std::optional<std::string> only_target_of(const std::string& workload) const;
  std::size_t size() const;
  const std::string& path() const { return path_; }

 private:
  std::string read(const std::string& text);       // what is wrong with it
  std::string read_line(const std::string& line);  // likewise
  bool append(const std::string& line);

  std::string path_;
  MachineRates rates_;
  bool has_rates_ = false;
  std::map<std::string, OfTask> tasks_;        // by workload and target
  std::map<std::string, Times> in_turn_;       // likewise
  std::map<std::string, SearchSeconds> took_;  // by the fields of SearchKey, as they stand in the file
};

}  // namespace tw::bench
