#include "rules/lang/try_in_child.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "dsl/base/forked.h"
#include "dsl/base/text.h"

namespace tw::rules {

std::string try_in_child(const std::string& subject, int seconds, const std::function<std::string()>& call) {
  ForkedAnswer answer = run_forked([&](std::string& wrong) {
    rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(static_cast<unsigned>(seconds));
    wrong = call();
    return 0;
  });
  if (!answer.not_started.empty()) return cat("the process that tries it could not be started: ", answer.not_started);
  if (answer.signal == SIGALRM) return cat(subject, " takes longer than ", seconds, " seconds");
  if (answer.signal != 0) return cat(subject, " crashes: ", strsignal(answer.signal));
  if (answer.text.empty() && answer.exit_code != 0)
    return cat(subject, " ends the process with code ", answer.exit_code);
  return answer.text;
}

}  // namespace tw::rules
