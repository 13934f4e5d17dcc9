// Work in a forked child, so that a crash, an endless loop or a call of exit() ends the child only. The child has no
// other threads, and what it changes in memory is lost.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>

namespace tw {

struct ForkedAnswer {
  std::string text;    // what the work has put into it. If a signal ended the child, it holds what was written before
  int exit_code = -1;  // what the work returned or gave to exit(); -1 = it was ended by a signal
  int signal = 0;      // that ended it; 0 = none
  std::string not_started;  // why there is no child; "" if there was one
};

// A child that hands over bytes while it works. It waits as long as nobody takes them, so that they need not be in
// memory all at once: the pipe between holds some 64 KiB.
class ForkedStream {
 public:
  // False if the bytes could not be handed over.
  using HandOver = std::function<bool(const void* data, std::size_t bytes)>;
  // Begins the work in a child, whose exit code is what the work returns. The work sets its own limits (alarm,
  // setrlimit). An exception that leaves it ends the child by SIGABRT.
  explicit ForkedStream(const std::function<int(const HandOver& hand_over)>& work);
  ForkedStream(const ForkedStream&) = delete;
  ForkedStream& operator=(const ForkedStream&) = delete;
  // Ends a child that still works, by SIGKILL.
  ~ForkedStream();

  // Waits for `bytes` bytes of the child. False if it ended before it had handed them over.
  bool take(void* data, std::size_t bytes);
  // Takes all bytes that are left, as text, and waits for the end of the child. Call it once, after all take().
  ForkedAnswer finish();

 private:
  int from_ = -1;  // the end of the pipe that is read
  pid_t child_ = -1;
  std::string not_started_;
};

// Runs work(text) in a child and waits for it, as above. Exit code 1 if the text could not be handed over.
ForkedAnswer run_forked(const std::function<int(std::string& text)>& work);

}  // namespace tw
