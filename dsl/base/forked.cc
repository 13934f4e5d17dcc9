#include "dsl/base/forked.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tw {
namespace {

constexpr std::size_t kMostWritten = std::size_t{1} << 30;  // one call of write() takes at most 2 GiB

bool write_all(int to, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(to, data, std::min(bytes, kMostWritten));
    if (n < 0 && errno != EINTR) return false;
    if (n > 0) data += n, bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

[[noreturn]] void run_child(int to, const std::function<int(const ForkedStream::HandOver&)>& work) noexcept {
  _exit(
      work([to](const void* data, std::size_t bytes) { return write_all(to, static_cast<const char*>(data), bytes); }));
}

// Reads up to `bytes` bytes and returns how many; 0 at the end of the pipe, or if reading fails.
std::size_t read_some(int from, char* data, std::size_t bytes) {
  ssize_t n;
  do n = read(from, data, std::min(bytes, kMostWritten));
  while (n < 0 && errno == EINTR);
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

// Waits for the end of the child; its status, or 0 without a child.
int wait_for(pid_t child) {
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

ForkedStream::ForkedStream(const std::function<int(const HandOver& hand_over)>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    not_started_ = std::strerror(errno);
    return;
  }
  child_ = fork();
  if (child_ == 0) {
    close(ends[0]);
    run_child(ends[1], work);
  }
  if (child_ < 0) not_started_ = std::strerror(errno);
  close(ends[1]);
  from_ = ends[0];
}

ForkedStream::~ForkedStream() {
  if (child_ > 0) kill(child_, SIGKILL);
  wait_for(child_);
  if (from_ >= 0) close(from_);
}

bool ForkedStream::take(void* data, std::size_t bytes) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    std::size_t n = from_ >= 0 ? read_some(from_, to, bytes) : 0;
    if (n == 0) return false;
    to += n, bytes -= n;
  }
  return true;
}

ForkedAnswer ForkedStream::finish() {
  ForkedAnswer answer{.not_started = not_started_};
  char buffer[4096];
  for (std::size_t n; from_ >= 0 && (n = read_some(from_, buffer, sizeof buffer)) > 0;) answer.text.append(buffer, n);
  int status = wait_for(child_);
  if (WIFSIGNALED(status))
    answer.signal = WTERMSIG(status);
  else if (child_ > 0)
    answer.exit_code = WEXITSTATUS(status);
  child_ = -1;
  return answer;
}

ForkedAnswer run_forked(const std::function<int(std::string& text)>& work) {
  ForkedStream child([&](const ForkedStream::HandOver& hand_over) {
    std::string text;
    int code = work(text);
    return hand_over(text.data(), text.size()) ? code : 1;
  });
  return child.finish();
}

}  // namespace tw
