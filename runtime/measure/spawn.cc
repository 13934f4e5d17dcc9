#include "runtime/measure/spawn.h"

#include <spawn.h>
#include <unistd.h>

namespace tw {

// posix_spawn and not Boost.Process, which forks: that copies the page tables of a search that may have gigabytes, and
// its limit_handles allocates in the child.
pid_t spawn(const std::vector<std::string>& words, const SpawnOptions& options) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (auto [here, there] : options.descriptors) posix_spawn_file_actions_adddup2(&actions, here, there);
  if (options.close_from >= 0) posix_spawn_file_actions_addclosefrom_np(&actions, options.close_from);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (options.own_group) {
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
  }
  char* nothing[] = {nullptr};
  char** environment = options.empty_environment ? nothing : environ;
  pid_t pid = -1;
  int failed = (options.search_path ? posix_spawnp : posix_spawn)(&pid, arguments[0], &actions, &attributes,
                                                                  arguments.data(), environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? pid : -failed;
}

}  // namespace tw
