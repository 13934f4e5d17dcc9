#include "bench/gpu/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/parse.hpp>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"

namespace tw::gpu_bench {
namespace {

namespace json = boost::json;

// The process with its standard output in `to`; -1: it cannot be started.
pid_t start(std::vector<std::string>& words, int to) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
  pid_t pid = -1;
  int failed = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? pid : -1;
}

void take_row(const std::string& line, PartProcess& out) {
  json::error_code code;
  json::value row = json::parse(line, code);
  if (code || !row.is_object()) return;
  if (const json::value* begun = row.get_object().if_contains("begin"))
    out.begun = *begun;
  else
    out.rows.push_back(std::move(row));
}

// Takes rows until there are no more, or one of the limits is over.
void take_rows(int from, double end, PartProcess& out) {
  std::string text;
  pollfd wanted{from, POLLIN, 0};
  double heard = seconds_now();
  for (char bytes[4096];;) {
    double silent_end = out.begun.is_null() ? end : heard + kMostSilent;
    int left = static_cast<int>((std::min(end, silent_end) - seconds_now()) * 1000);
    if (left <= 0 || poll(&wanted, 1, left) == 0) {
      (silent_end < end ? out.is_silent : out.is_late) = true;
      return;
    }
    ssize_t got = read(from, bytes, sizeof bytes);
    if (got <= 0) return;
    heard = seconds_now();
    text.append(bytes, static_cast<std::size_t>(got));
    for (std::size_t line = text.find('\n'); line != std::string::npos; line = text.find('\n')) {
      take_row(text.substr(0, line), out);
      text.erase(0, line + 1);
    }
  }
}

}  // namespace

std::string PartProcess::how_it_ended() const {
  if (is_silent) return cat("said nothing for ", kMostSilent, " s");
  if (code < 0) return "its process cannot be started";
  return code > 128 ? cat("ended the process: signal ", code - 128) : cat("ended the process: exit code ", code);
}

PartProcess run_part(std::vector<std::string> words, double seconds) {
  PartProcess out;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return out;
  pid_t pid = start(words, ends[1]);
  close(ends[1]);
  if (pid > 0) take_rows(ends[0], seconds_now() + seconds, out);
  close(ends[0]);
  if (pid < 0) return out;
  if (out.is_late || out.is_silent) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return out;
}

}  // namespace tw::gpu_bench
