#include "runtime/measure/spawn.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#define BOOST_PROCESS_USE_STD_FS
#define BOOST_POSIX_HAS_VFORK 1  // Boost 1.81 defines it for POSIX before 2008 only; Linux has vfork
#include <boost/process.hpp>
#include <boost/process/extend.hpp>

namespace bp = boost::process;

namespace tw {
namespace {

constexpr int kNoFolder = 126;  // the exit code of a program that cannot be run, as of shells

// What the new process does before it becomes the program. Its memory is the caller's: nothing is changed in it.
struct BecomeProgram : bp::extend::handler {
  explicit BecomeProgram(const SpawnOptions& options) : options(options) {}

  template <typename Executor>
  void on_setup(Executor& executor) const {
    static char* nothing[] = {nullptr};
    if (options.empty_environment) executor.env = nothing;
  }

  template <typename Executor>
  void on_exec_setup(Executor&) const {
    for (auto [here, there] : options.descriptors) {
      if (here == there)
        fcntl(there, F_SETFD, 0);  // dup2 would leave it to be closed
      else
        dup2(here, there);
    }
    if (options.close_from >= 0) close_range(unsigned(options.close_from), ~0u, 0);
    if (options.own_group) setpgid(0, 0);
    if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(kNoFolder);
  }

  const SpawnOptions& options;
};

}  // namespace

pid_t spawn(const std::vector<std::string>& words, const SpawnOptions& options) {
  std::string program = words[0];
  if (options.search_path && program.find('/') == std::string::npos) {
    program = bp::search_path(program).string();
    if (program.empty()) return -ENOENT;
    program = std::filesystem::absolute(program).string();  // $PATH may have parts that are not
  }
  // vfork and not fork, which copies the page tables of a search that may have gigabytes.
  std::error_code failed;
  bp::child child(bp::exe = program, bp::args = std::vector(words.begin() + 1, words.end()), BecomeProgram(options),
                  bp::posix::use_vfork, failed);
  if (failed) return -failed.value();
  child.detach();
  return child.id();
}

}  // namespace tw
