// Work in a forked child, so that a crash, an endless loop or a call of exit() ends the child only. The child has no
// other threads, and what it changes in memory is lost.
#pragma once
#include <functional>
#include <string>

namespace tw {

struct ForkedAnswer {
  std::string text;    // what the work has put into it. If a signal ended the child, it holds what was written before
  int exit_code = -1;  // what the work returned or gave to exit(); -1 = it was ended by a signal
  int signal = 0;      // that ended it; 0 = none
  std::string not_started;  // why there is no child; "" if there was one
};

// Runs work(text) in a child and waits for it. The work sets its own limits (alarm, setrlimit). An exception that
// leaves it ends the child by SIGABRT. Exit code 1 if the text could not be handed over.
ForkedAnswer run_forked(const std::function<int(std::string& text)>& work);

}  // namespace tw
