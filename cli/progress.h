// The progress of a tune on standard error: one line that is rewritten on a terminal, else a line
// every few seconds. The tuner reports trials and messages from different threads.
#pragma once
#include <chrono>
#include <mutex>

#include "sampler/search/tune.h"

namespace tw::cli {

class Progress final : public TuneObserver {
 public:
  // names: of the tasks; seconds, total_trials: limits of the run, 0 = none.
  Progress(std::vector<std::string> names, double seconds, i64 total_trials);
  void on_trial(const std::vector<TaskProgress>& tasks, std::size_t task,
                const Record& last) override;
  void on_message(const std::string& text) override;
  // Ends the line that is being rewritten.
  void finish();

 private:
  std::string line_of(const std::vector<TaskProgress>& tasks) const;
  void clear_line();

  std::vector<std::string> names_;
  double seconds_;
  i64 total_trials_;
  bool terminal_;
  bool line_open_ = false;
  i64 measured_ = 0;  // in this run
  std::chrono::steady_clock::time_point begin_, shown_{};
  std::mutex mutex_;
};

}  // namespace tw::cli
