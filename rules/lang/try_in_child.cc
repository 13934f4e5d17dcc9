#include "rules/lang/try_in_child.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "dsl/base/text.h"

namespace tw::rules {
namespace {

// An exception of the plugin must end the child here.
[[noreturn]] void run_child(int to, int seconds, const std::function<std::string()>& call) noexcept {
  rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  alarm(static_cast<unsigned>(seconds));
  std::string wrong = call();
  bool is_written = write(to, wrong.data(), wrong.size()) == static_cast<ssize_t>(wrong.size());
  _exit(is_written ? 0 : 1);
}

}  // namespace

std::string try_in_child(const std::string& subject, int seconds, const std::function<std::string()>& call) {
  int ends[2];
  if (pipe(ends) != 0) return cat("no pipe to a process that tries it: ", std::strerror(errno));
  pid_t child = fork();
  if (child == 0) run_child(ends[1], seconds, call);
  close(ends[1]);
  std::string wrong;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);)
    if (n > 0) wrong.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  pid_t ended = -1;
  while (child > 0 && (ended = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  if (child < 0 || ended != child) return "the process that tries it could not be started";
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return cat(subject, " takes longer than ", seconds, " seconds");
  if (WIFSIGNALED(status)) return cat(subject, " crashes: ", strsignal(WTERMSIG(status)));
  if (wrong.empty() && WEXITSTATUS(status) != 0) return cat(subject, " ends the process with code ", WEXITSTATUS(status));
  return wrong;
}

}  // namespace tw::rules
