#include "cli/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/console/output.h"

namespace tw::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::vector<std::string> names, double seconds, i64 total_trials)
    : names_(std::move(names)),
      seconds_(seconds),
      total_trials_(total_trials),
      terminal_(isatty(STDERR_FILENO) != 0),
      begin_(Clock::now()) {}

void Progress::on_trial(const std::vector<TaskProgress>& tasks, std::size_t, const Record&) {
  std::lock_guard lock(mutex_);
  ++measured_;
  double pause = terminal_ ? 0.2 : 5;
  if (seconds_since(shown_) < pause) return;
  shown_ = Clock::now();
  std::string line = line_of(tasks);
  if (!terminal_) return void(std::fprintf(stderr, "%s\n", line.c_str()));
  std::fprintf(stderr, "\r\033[K%s", line.substr(0, terminal_width() - 1).c_str());
  std::fflush(stderr);
  line_open_ = true;
}

std::string Progress::line_of(const std::vector<TaskProgress>& tasks) const {
  double passed = seconds_since(begin_),
         rate = static_cast<double>(measured_) / std::max(passed, 1e-3);
  i64 trials = 0, failed = 0, wanted = 0, left = 0;
  std::string best;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskProgress& task = tasks[i];
    trials += task.trials;
    failed += task.failed;
    i64 missing = task.done ? 0 : std::max<i64>(0, task.wanted - task.trials);
    wanted += task.trials + missing;
    left += missing;
    best += fmt::format("  {} {}", names_[i], show_time(task.best_seconds));
  }
  if (total_trials_ > 0) wanted = std::min(wanted, total_trials_), left = std::min(left, std::max<i64>(0, total_trials_ - trials));
  double time_left = rate > 0 ? static_cast<double>(left) / rate : 0;
  if (seconds_ > 0) time_left = std::min(time_left, std::max(0.0, seconds_ - passed));
  return fmt::format("{}  {}/{} trials  {:.1f}/s  {} failed  {} left |{}", show_clock(passed),
                     trials, wanted, rate, failed,
                     show_clock(time_left), best);
}

void Progress::on_message(const std::string& text) {
  std::lock_guard lock(mutex_);
  clear_line();
  say(text);
}

void Progress::finish() {
  std::lock_guard lock(mutex_);
  clear_line();
}

void Progress::clear_line() {
  if (line_open_) std::fprintf(stderr, "\r\033[K");
  line_open_ = false;
}

}  // namespace tw::cli
