// Results of programs, so that an experiment can be repeated without measuring, and so that a program which several
// arms find is measured once and has one time. A text file, one line a program:
//   workload,target,program,status,seconds
// where status `in turn` is a time that was measured in turn with others (in_turn.h),
// and, before them, the rates of the machine that measured (`# rates ...`). It is only appended to, so that an
// experiment goes on where it was stopped.
#pragma once
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "costmodel/machine_rates.h"
#include "runtime/store/record.h"

namespace tw::bench {

class StoredResults {
 public:
  // The results of a task by the hash of the program.
  using OfTask = std::map<std::string, Record>;

  // Reads the file if there is one; gzip is read, too, but not written. `error` names what is wrong with it.
  static std::unique_ptr<StoredResults> open(const std::string& path, std::string& error);

  const OfTask& of(const std::string& workload, const std::string& target);
  // Keeps a result and appends it to the file. False if the file cannot be written.
  bool add(const Record& record);

  // Of a program among the best of an experiment, measured in turn with the others; nothing if it is not known.
  std::optional<double> in_turn(const std::string& workload, const std::string& target, const std::string& program);
  bool add_in_turn(const std::string& workload, const std::string& target, const std::string& program, double seconds);

  // Of the machine that measured; what the draft model says depends on them.
  const MachineRates& rates() const { return rates_; }
  bool has_rates() const { return has_rates_; }
  bool set_rates(const MachineRates& rates);
  std::size_t size() const;

 private:
  static constexpr const char* kInTurn = "in turn";
  using Times = std::map<std::string, double>;

  std::string read(const std::string& text);  // what is wrong with it
  bool append(const std::string& line);

  std::string path_;
  MachineRates rates_;
  bool has_rates_ = false;
  std::map<std::string, OfTask> tasks_;   // by workload and target
  std::map<std::string, Times> in_turn_;  // likewise
};

}  // namespace tw::bench
