#include "support/run_program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>

#include "support/support.h"

namespace tw::test {
namespace {

// A pseudo terminal for a program to write to; read() empties it until the program is gone.
class Terminal {
 public:
  Terminal() : ours_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    EXPECT_TRUE(ours_ >= 0 && grantpt(ours_) == 0 && unlockpt(ours_) == 0);
    name_ = ptsname(ours_);
  }
  Terminal(const Terminal&) = delete;
  ~Terminal() { close(ours_); }
  const std::string& name() const { return name_; }
  std::string read() const {
    std::string text;
    char part[4096];
    for (ssize_t got; (got = ::read(ours_, part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(got));
    return text;
  }

 private:
  int ours_;
  std::string name_;
};

[[noreturn]] void become(const std::vector<std::string>& words, const RunOptions& options, const std::string& out,
                         const std::string& err) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  for (const std::string& setting : options.environment) putenv(const_cast<char*>(setting.c_str()));
  int in_file = open("/dev/null", O_RDONLY);
  int out_file = open(out.c_str(), O_WRONLY | O_CREAT | O_NOCTTY, 0600);
  int err_file = open(err.c_str(), O_WRONLY | O_CREAT, 0600);
  dup2(in_file, 0), dup2(out_file, 1), dup2(err_file, 2);
  close_range(3, ~0u, 0);
  if (options.closed_input) close(0);
  if (options.closed_output) close(1), close(2);
  if (chdir(options.folder.c_str()) == 0) execvp(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

Finished run_program(const std::vector<std::string>& words, const RunOptions& options) {
  TemporaryDirectory folder;
  std::string out = folder.path() + "/out", err = folder.path() + "/err";
  std::optional<Terminal> terminal;
  if (options.terminal_output) terminal.emplace();
  pid_t pid = fork();
  if (pid == 0) become(words, options, terminal ? terminal->name() : out, err);
  EXPECT_GT(pid, 0);
  if (options.meanwhile) options.meanwhile(pid);
  std::string shown = terminal ? terminal->read() : "";
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), terminal ? shown : read_file(out),
          read_file(err)};
}

Finished tracewright(std::vector<std::string> words, const RunOptions& options) {
  words.insert(words.begin(), TW_BINARY_DIR "/tracewright");
  return run_program(words, options);
}

}  // namespace tw::test
