#include "dsl/base/forked.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tw {
namespace {

[[noreturn]] void run_child(int to, const std::function<int(std::string&)>& work) noexcept {
  std::string text;
  int code = work(text);
  // By a stream: one call of write() takes at most 2 GiB.
  FILE* file = fdopen(to, "w");
  bool is_written = file && fwrite(text.data(), 1, text.size(), file) == text.size() && fclose(file) == 0;
  _exit(is_written ? code : 1);
}

std::string read_to_end(int from) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);) {
    if (n > 0) text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

}  // namespace

ForkedAnswer run_forked(const std::function<int(std::string& text)>& work) {
  ForkedAnswer answer;
  int ends[2];
  if (pipe(ends) != 0) {
    answer.not_started = std::strerror(errno);
    return answer;
  }
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    run_child(ends[1], work);
  }
  if (child < 0) answer.not_started = std::strerror(errno);
  close(ends[1]);
  answer.text = read_to_end(ends[0]);
  close(ends[0]);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    answer.signal = WTERMSIG(status);
  else if (child > 0)
    answer.exit_code = WEXITSTATUS(status);
  return answer;
}

}  // namespace tw
