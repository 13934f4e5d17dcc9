#include "runtime/peers/peer_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "dsl/base/text.h"
#include "runtime/measure/spawn.h"

namespace tw {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// A file of the peers: in the given folder, or beside this program (tests lie one folder deeper). "": not there.
std::string find_file(const std::string& name, int access_mode, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::vector<fs::path> folders =
      folder.empty() ? std::vector{here, here.parent_path()} : std::vector{fs::path(folder)};
  for (const fs::path& at : folders) {
    const fs::path file = at / name;
    if (access(file.c_str(), access_mode) == 0) return file;
  }
  return "";
}

}  // namespace

const char* name_of(PeerStatus status) {
  static constexpr const char* kNames[] = {"ok", "missing", "unsupported", "failed", "timed out", "died"};
  return kNames[static_cast<int>(status)];
}

std::vector<std::string> peer_words(const std::string& name, bool is_wheel, const std::string& folder) {
  if (!is_wheel) {
    const std::string program = find_file("tracewright-peer-" + name, X_OK, folder);
    return program.empty() ? std::vector<std::string>{} : std::vector{program};
  }
  const std::string script = find_file(cat(kWheelFolder, "/__main__.py"), R_OK, folder);
  if (script.empty()) return {};
  const char* chosen = std::getenv("TRACEWRIGHT_PYTHON");
  // -B: no compiled files are written into the folder.
  return {chosen && *chosen ? chosen : "python3", "-B", std::filesystem::path(script).parent_path(), name};
}

PeerProcess::~PeerProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (socket_ >= 0) close(socket_);
  if (errors_ >= 0) close(errors_);
}

// The two ends of the line and the file for errors. `program` is for the message.
PeerResult<std::string> PeerProcess::open_line(const std::string& program, int& their_end) {
  int ends[2];
  errors_ = memfd_create("tracewright-peer-errors", MFD_CLOEXEC);
  if (errors_ < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return {PeerStatus::Missing, cat("cannot start ", program, ": ", std::strerror(errno)), {}};
  socket_ = ends[0], their_end = ends[1];
  return {};
}

PeerResult<std::string> PeerProcess::launch(std::vector<std::string> words) {
  const std::string program = words[0];
  int their_end = -1;
  if (PeerResult<std::string> opened = open_line(program, their_end); !opened) return opened;
  words.insert(words.end(), {"--threads", cat(options_.threads), "--vector-bits", cat(options_.vector_bits)});
  if (!options_.cpus.empty()) words.insert(words.end(), {"--cpus", join(options_.cpus, ",")});
  // A process group of its own: Ctrl-C is for the bench command, which ends its peers itself.
  pid_ = spawn(words, {.descriptors = {{their_end, STDIN_FILENO}, {their_end, STDOUT_FILENO}, {errors_, STDERR_FILENO}},
                       .own_group = true,
                       .search_path = true});
  close(their_end);
  if (pid_ < 0) {
    const int failed = -std::exchange(pid_, -1);
    return {PeerStatus::Missing, cat("cannot start ", program, ": ", std::strerror(failed)), {}};
  }
  return read_version();
}

PeerResult<std::string> PeerProcess::launch(const std::function<void()>& serve) {
  int their_end = -1;
  if (PeerResult<std::string> opened = open_line(name_, their_end); !opened) return opened;
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    for (int to : {STDIN_FILENO, STDOUT_FILENO}) dup2(their_end, to);
    dup2(errors_, STDERR_FILENO);
    close(socket_);
    serve();
    _exit(0);
  }
  close(their_end);
  if (pid_ < 0) return {PeerStatus::Missing, cat("cannot start ", name_, ": ", std::strerror(errno)), {}};
  return read_version();
}

PeerResult<std::string> PeerProcess::read_version() {
  PeerResult<std::string> line = read_line(options_.start_timeout);
  if (!line) return line;
  if (line.value.starts_with("missing ")) return {PeerStatus::Missing, line.value.substr(std::strlen("missing ")), {}};
  if (!line.value.starts_with("ready ")) return lost(PeerStatus::Failed, cat("answered `", line.value, "` on start"));
  if (!stop()) return lost(PeerStatus::Died, "ended on start");
  return {PeerStatus::Ok, "", line.value.substr(std::strlen("ready "))};
}

PeerResult<std::string> PeerProcess::request(const std::string& line, Milliseconds timeout) {
  if (pid_ < 0) return {PeerStatus::Died, cat("the ", name_, " peer has ended"), {}};
  kill(pid_, SIGCONT);
  const std::string sent = line + "\n";
  if (send(socket_, sent.data(), sent.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(sent.size())) {
    return lost(PeerStatus::Died, "takes no more requests");
  }
  PeerResult<std::string> answer = read_line(timeout);
  if (!answer) return answer;
  if (!stop()) return lost(PeerStatus::Died, "ended after its answer");
  const std::size_t space = std::min(answer.value.find(' '), answer.value.size());
  const std::string word = answer.value.substr(0, space),
                    rest = answer.value.substr(std::min(space + 1, answer.value.size()));
  if (word == "ok") return {PeerStatus::Ok, "", rest};
  if ((word == "unsupported" || word == "error") && !rest.empty())
    return {word == "error" ? PeerStatus::Failed : PeerStatus::Unsupported, rest, {}};
  constexpr std::size_t most = 200;
  return lost(PeerStatus::Failed, cat("answered `", answer.value.substr(0, most), "`"));
}

PeerResult<std::string> PeerProcess::read_line(Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (unread_.find('\n') == std::string::npos) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now()).count();
    pollfd ready{socket_, POLLIN, 0};
    const int count = poll(&ready, 1, static_cast<int>(std::clamp<i64>(left, 0, 1000)));
    if (options_.stop && options_.stop()) return lost(PeerStatus::Failed, "was interrupted");
    if (count < 0 && errno == EINTR) continue;
    if (count == 0 && left > 1000) continue;
    if (count == 0) return lost(PeerStatus::TimedOut, cat("gave no answer within ", timeout.count(), " ms"));
    char buffer[4096];
    const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
    if (got <= 0) return lost(PeerStatus::Died, "closed the line");
    unread_.append(buffer, got);
  }
  const std::size_t end = unread_.find('\n');
  const std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return {PeerStatus::Ok, "", line};
}

PeerResult<std::string> PeerProcess::lost(PeerStatus status, const std::string& what) {
  int how = 0;
  // What closed the line by ending is seen as ended within a moment; its own cause is worth more
  // than our kill.
  for (int wait = 0; wait < 100 && status == PeerStatus::Died && pid_ > 0; ++wait) {
    if (waitpid(pid_, &how, WNOHANG) == pid_)
      pid_ = -1;
    else
      std::this_thread::sleep_for(Milliseconds(1));
  }
  std::string cause;
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, &how, 0);
    pid_ = -1;
  } else if (WIFSIGNALED(how)) {
    cause = cat(" (killed by signal ", WTERMSIG(how), ", ", strsignal(WTERMSIG(how)), ")");
  } else if (WIFEXITED(how)) {
    cause = cat(" (exit code ", WEXITSTATUS(how), ")");
  }
  return {status, cat("the ", name_, " peer ", what, cause, last_words()), {}};
}

// False if the process has ended instead.
bool PeerProcess::stop() {
  kill(pid_, SIGSTOP);
  // A stop takes microseconds; a process that does not stop is stuck in the kernel, and counts as
  // ended.
  for (const auto deadline = Clock::now() + std::chrono::seconds(5); Clock::now() < deadline;) {
    siginfo_t info{};
    if (waitid(P_PID, pid_, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT) != 0) return false;
    if (info.si_pid == 0)
      std::this_thread::yield();
    else
      return info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED;
  }
  return false;
}

// The end of what the process wrote to stderr.
std::string PeerProcess::last_words() const {
  char buffer[400];
  const off_t size = lseek(errors_, 0, SEEK_END), from = std::max<off_t>(0, size - static_cast<off_t>(sizeof buffer));
  const ssize_t got = pread(errors_, buffer, sizeof buffer, from);
  return got > 0 ? cat("; it said: ", std::string(buffer, got)) : "";
}

}  // namespace tw
