// The progress of a tune on standard error: one line that is rewritten on a terminal, else a line
// every few seconds. The tuner reports trials and messages from different threads.
#pragma once
#include <chrono>
#include <mutex>

#include "sampler/search/tune.h"

namespace tw::cli {

// How far a run is.
struct Pace {
  double passed = 0;     // seconds of this run
  double seconds = 0;    // its limit; 0 = none
  i64 measured = 0;      // trials of this run
  i64 total_trials = 0;  // limit of all tasks together; 0 = none
};

// One line of at most `width` characters: time, trials, trials per second, time left, tasks that are done, open and
// failed; then, as far as there is room, tasks[current] with its best time, and trials that failed. A long name of the
// task is shortened.
std::string progress_line(const std::vector<TaskProgress>& tasks, std::size_t current, const Pace& pace,
                          std::size_t width);

class Progress final : public TuneObserver {
 public:
  // Limits of the run; 0 = none.
  Progress(double seconds, i64 total_trials);
  void on_trial(const std::vector<TaskProgress>& tasks, std::size_t task, const Record& last) override;
  void on_message(const std::string& text) override;
  // Ends the line that is being rewritten.
  void finish();

 private:
  void clear_line();

  Pace pace_;
  bool terminal_;
  bool line_open_ = false;
  std::chrono::steady_clock::time_point begin_, shown_{};
  std::mutex mutex_;
};

}  // namespace tw::cli
