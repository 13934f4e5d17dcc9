// The line of progress of a tune: what it says in which room, and that it never wraps.
#include "cli/progress.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "dsl/base/text.h"

namespace tw::cli {
namespace {

std::vector<TaskProgress> tasks_of(int count) {
  std::vector<TaskProgress> tasks;
  for (int i = 0; i < count; ++i)
    tasks.push_back({.name = cat("a_long_name_of_a_convolution_", i),
                     .trials = 100,
                     .failed = 1,
                     .wanted = 400,
                     .best_seconds = 812.3e-6});
  return tasks;
}

constexpr Pace kPace{.passed = 727, .seconds = 0, .measured = 8950, .total_trials = 0};

TEST(ProgressLine, SaysHowManyTasksAreDoneOpenAndFailed) {
  std::vector<TaskProgress> tasks = tasks_of(50);
  tasks[0].done = tasks[1].done = tasks[2].done = true;
  tasks[2].problem = "no draw is valid";
  EXPECT_EQ(progress_line(tasks, 17, kPace, 200),
            "12:07  5000/19100 trials  12.3/s  19:05 left  2 done, 47 open, 1 failed  a_long_name_of_a_convolution_17 "
            "812.3 us  50 trials failed");
  EXPECT_EQ(progress_line(tasks, 17, {.passed = 100, .seconds = 130, .measured = 100, .total_trials = 5010}, 60),
            "1:40  5000/5010 trials  1.0/s  0:10 left  2 done, 47 open, 1");
}

TEST(ProgressLine, TheTaskInWorkIsShortenedBeforeItIsLeftOut) {
  std::vector<TaskProgress> tasks = tasks_of(50);
  EXPECT_EQ(progress_line(tasks, 17, kPace, 79),
            "12:07  5000/20000 trials  12.3/s  20:18 left  0 done, 50 open  a_long_name_o...");
  EXPECT_EQ(progress_line(tasks, 17, kPace, 64), "12:07  5000/20000 trials  12.3/s  20:18 left  0 done, 50 open");
}

TEST(ProgressLine, NoWidthIsExceeded) {
  std::vector<TaskProgress> tasks = tasks_of(50);
  tasks[3].problem = "no draw is valid";
  for (std::size_t width = 0; width < 150; ++width) EXPECT_LE(progress_line(tasks, 17, kPace, width).size(), width);
}

// All that is written to a terminal with so many columns.
std::string shown_on_a_terminal(unsigned short columns) {
  int terminal = -1, inner = -1;
  winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_EQ(openpty(&terminal, &inner, nullptr, nullptr, &size), 0);
  std::fflush(stderr);
  int before = dup(STDERR_FILENO);
  dup2(inner, STDERR_FILENO);
  {
    Progress progress(0, 0);
    progress.on_trial(tasks_of(50), 17, {});
  }
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  char text[4096];
  ssize_t count = read(terminal, text, sizeof text);
  close(inner);
  close(terminal);
  return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
}

TEST(ProgressLine, ATerminalIsNeverFilledToItsEnd) {
  const std::string begin = "\r\033[K";
  for (unsigned short columns : {10, 15, 40, 80, 120}) {
    std::string shown = shown_on_a_terminal(columns);
    ASSERT_TRUE(shown.starts_with(begin)) << shown;
    EXPECT_LT(shown.size() - begin.size(), columns) << shown;
    EXPECT_EQ(shown.find('\n'), std::string::npos) << shown;
    EXPECT_EQ(shown.find("a_long_name_of_a_convolution_17") != std::string::npos, columns == 120) << shown;
  }
}

}  // namespace
}  // namespace tw::cli
