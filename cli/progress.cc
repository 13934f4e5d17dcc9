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

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

constexpr std::size_t kShortestName = 6;  // of a task, with the dots that say that it is shortened

// "  name" in the room that is left; nothing where that says too little.
std::string name_within(const std::string& name, std::size_t room) {
  if (name.size() + 2 <= room) return "  " + name;
  return room < kShortestName + 2 ? "" : "  " + name.substr(0, room - 5) + "...";
}

std::string trials_of(const std::vector<TaskProgress>& tasks, const Pace& pace) {
  i64 trials = 0, left = 0;
  for (const TaskProgress& task : tasks) {
    trials += task.trials;
    if (!task.done) left += std::max<i64>(0, task.wanted - task.trials);
  }
  if (pace.total_trials > 0) left = std::min(left, std::max<i64>(0, pace.total_trials - trials));
  double rate = static_cast<double>(pace.measured) / std::max(pace.passed, 1e-3);
  double time_left = rate > 0 ? static_cast<double>(left) / rate : 0;
  if (pace.seconds > 0) time_left = std::min(time_left, std::max(0.0, pace.seconds - pace.passed));
  return fmt::format("{}/{} trials  {:.1f}/s  {} left", trials, trials + left, rate, show_clock(time_left));
}

// "12 done, 37 open, 1 failed"
std::string counts_of(const std::vector<TaskProgress>& tasks) {
  std::size_t failed = 0, done = 0;
  for (const TaskProgress& task : tasks) {
    failed += !task.problem.empty();
    done += task.done && task.problem.empty();
  }
  std::string out = fmt::format("{} done, {} open", done, tasks.size() - done - failed);
  return failed == 0 ? out : out + fmt::format(", {} failed", failed);
}

}  // namespace

std::string progress_line(const std::vector<TaskProgress>& tasks, std::size_t current, const Pace& pace,
                          std::size_t width) {
  std::string line = fmt::format("{}  {}  {}", show_clock(pace.passed), trials_of(tasks, pace), counts_of(tasks));
  if (line.size() > width) return line.substr(0, width);
  const TaskProgress& task = tasks[current];
  line += name_within(task.name, width - line.size());
  i64 failed = 0;
  for (const TaskProgress& each : tasks) failed += each.failed;
  for (const std::string& more : {" " + show_time(task.best_seconds), fmt::format("  {} trials failed", failed)})
    if (line.size() + more.size() <= width) line += more;
  return line;
}

Progress::Progress(double seconds, i64 total_trials)
    : pace_{.seconds = seconds, .total_trials = total_trials},
      terminal_(isatty(STDERR_FILENO) != 0),
      begin_(Clock::now()) {}

void Progress::on_trial(const std::vector<TaskProgress>& tasks, std::size_t task, const Record&) {
  std::lock_guard lock(mutex_);
  ++pace_.measured;
  double pause = terminal_ ? 0.2 : 5;
  if (seconds_since(shown_) < pause) return;
  shown_ = Clock::now();
  pace_.passed = seconds_since(begin_);
  std::string line = progress_line(tasks, task, pace_, terminal_ ? terminal_width() - 1 : std::string::npos);
  if (!terminal_) return void(std::fprintf(stderr, "%s\n", line.c_str()));
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
  line_open_ = true;
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
