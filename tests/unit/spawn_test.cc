// Programs that are started: their words, descriptors, environment and process group, and what cannot be started.
#include "runtime/measure/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace tw {
namespace {

struct Ended {
  pid_t pid;  // below 0: it did not start
  int exit_code = -1;
  std::string output;
};

// The command of a shell with a pipe as its descriptor `out`.
Ended run(const std::string& command, SpawnOptions options = {}, int out = STDOUT_FILENO) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  options.descriptors.push_back({ends[1], out});
  Ended ended{.pid = spawn({"/bin/sh", "-c", command, "name", "a b", ""}, options)};
  close(ends[1]);
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) ended.output.append(buffer, std::size_t(n));
  close(ends[0]);
  int status = 0;
  if (ended.pid > 0 && waitpid(ended.pid, &status, 0) == ended.pid) ended.exit_code = WEXITSTATUS(status);
  return ended;
}

TEST(Spawn, WordsAndExitCodeAreTheProgramsOwn) {
  Ended ended = run("printf '%s|' \"$#\" \"$1\" \"$2\"; exit 7");
  EXPECT_EQ(ended.output, "2|a b||");
  EXPECT_EQ(ended.exit_code, 7);
}

TEST(Spawn, AProgramBeginsInItsFolder) {
  EXPECT_EQ(run("pwd", {.folder = "/usr"}).output, "/usr\n");
  EXPECT_EQ(run("pwd", {.folder = "/none"}).exit_code, 126);
}

TEST(Spawn, DescriptorsAreCopiedAndOthersClosed) {
  const int stray = fcntl(STDIN_FILENO, F_DUPFD, 20);  // does not close itself
  ASSERT_GE(stray, 20);
  const std::string open = "[ -e /proc/self/fd/" + std::to_string(stray) + " ] && echo open || echo closed";
  EXPECT_EQ(run(open).output, "open\n");
  EXPECT_EQ(run(open, {.close_from = 3}).output, "closed\n");
  close(stray);
  EXPECT_EQ(run("echo text >&3", {.close_from = 4}, 3).output, "text\n");
}

TEST(Spawn, ADescriptorMayKeepItsNumber) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t pid =
      spawn({"/bin/sh", "-c", "echo kept >&" + std::to_string(ends[1])}, {.descriptors = {{ends[1], ends[1]}}});
  ASSERT_GT(pid, 0);
  close(ends[1]);
  char buffer[16];
  EXPECT_EQ(read(ends[0], buffer, sizeof buffer), 5);
  close(ends[0]);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST(Spawn, EnvironmentIsInheritedOrEmpty) {
  setenv("TW_SPAWN_TEST", "here", 1);
  EXPECT_EQ(run("echo $TW_SPAWN_TEST").output, "here\n");
  EXPECT_EQ(run("echo $TW_SPAWN_TEST", {.empty_environment = true}).output, "\n");
  unsetenv("TW_SPAWN_TEST");
}

TEST(Spawn, AGroupOfItsOwn) {
  const std::string group = "read -r _ _ _ _ group _ < /proc/$$/stat; echo $group";
  EXPECT_EQ(run(group).output, std::to_string(getpgrp()) + "\n");
  Ended own = run(group, {.own_group = true});
  EXPECT_EQ(own.output, std::to_string(own.pid) + "\n");
}

TEST(Spawn, WhatCannotBeStartedSaysWhyAndLeavesNoProcess) {
  EXPECT_EQ(spawn({"/no/such/program"}, {}), -ENOENT);
  EXPECT_EQ(spawn({"/etc/passwd"}, {}), -EACCES);
  EXPECT_EQ(spawn({"no-such-program"}, {.search_path = true}), -ENOENT);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Spawn, PathIsSearchedWhereAsked) {
  EXPECT_EQ(spawn({"true"}, {}), -ENOENT);
  const pid_t pid = spawn({"true"}, {.search_path = true});
  ASSERT_GT(pid, 0);
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tw
