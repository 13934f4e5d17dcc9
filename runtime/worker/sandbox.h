// The sandbox of the child that runs a kernel: resource limits, Landlock (no file, no network), and
// seccomp in two stages. What it does not stop: a kernel that deliberately searches and changes the
// harness's own memory in the same process (the worker checks what it can: outputs, clock, slack),
// side channels, and use of the CPU until the time limit.
#pragma once
#include <linux/filter.h>

#include <string>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

// Descriptors of the child. Everything else is closed.
inline constexpr int kChildCommands = 10;   // reads one byte per phase
inline constexpr int kChildEvents = 11;     // writes one byte when the phase is done
inline constexpr int kChildSchedstat = 12;  // may be missing

// The given rights to files (LANDLOCK_ACCESS_FS_*) that this system knows; and a Landlock ruleset that takes them and
// TCP away, -1 where there is no Landlock.
u64 landlock_rights(u64 files);
int create_landlock(u64 files);

// Sets a resource limit, or keeps the present one if that is lower. False if the system refuses.
bool lower_limit(int resource, u64 limit);

// A variable of the environment: 1 lets kernels run without seccomp on a system that has none, which is what emulators
// of processors are. Workers start with no variables (runtime/measure/measurer.cc), so only a script that
// TRACEWRIGHT_WORKER names can set it. Where there is seccomp it changes nothing.
inline constexpr const char* kWithoutSeccomp = "TRACEWRIGHT_WITHOUT_SECCOMP";

class Sandbox {
 public:
  // In the worker, once: builds the filters and the Landlock rules so that a child only installs
  // them. False: the system lacks seccomp (`error` says so). A kernel without Landlock is
  // tolerated.
  bool prepare(std::string& error);

  // In the child, in this order. Each returns false if the system refuses.
  // No core files, no further files, at most `cpu_seconds` of CPU and `memory_bytes` of address
  // space more than now; dies with the worker.
  bool limit_resources(i64 memory_bytes, int cpu_seconds) const;
  bool forbid_files() const;
  bool enter_loading() const;  // allows what the loader and the start of the thread pool need
  bool enter_running() const;  // allows waiting, reading commands, writing events, ending; on all threads

 private:
  std::vector<sock_filter> loading_, running_;
  int landlock_ = -1;
  bool is_without_seccomp_ = false;
};

// "mmap", or "450" for one that has no name.
std::string syscall_name(int number);

}  // namespace tw
