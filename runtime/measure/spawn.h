// Starts programs: workers, the emulator, peers, the C compiler. What becomes of the process is the caller's.
#pragma once
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace tw {

struct SpawnOptions {
  std::vector<std::pair<int, int>> descriptors;  // {here, in the program}: copied in this order
  int close_from = -1;  // the program has no descriptor from this one on; -1 = all that do not close themselves
  bool own_group =
      false;  // a process group of its own, which can be killed with all that it starts; Ctrl-C does not reach it
  bool search_path = false;  // words[0] may be a name that $PATH knows
  bool empty_environment = false;
  std::string folder;  // that the program begins in; "" = ours
};

// The id of the new process; minus an errno where it cannot be started. words: the program and its arguments.
pid_t spawn(const std::vector<std::string>& words, const SpawnOptions& options);

}  // namespace tw
