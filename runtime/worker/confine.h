// What the processes beside the measuring child (runtime/worker/sandbox.h) are held to: the emulator, the compiler that
// it needs, and the workers of devices. All of it holds for the whole process, for threads that it starts later, and
// for the programs that it starts.
#pragma once
#include <string>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

struct Confinement {
  i64 data_bytes = 0;   // private memory beyond what the process has already; 0 = no limit
  int cpu_seconds = 0;  // processor time beyond what the process has used already; 0 = no limit
  i64 file_bytes = 0;   // the largest file that it may write
  std::vector<std::string>
      writable;  // folders in which files may be written, made and removed; those that are not there are left out
  bool reads_files = true;  // false: no file may be opened any more
};

// Applies these limits to this process for good, and forbids core files, new rights (set-user-id programs get none) and
// TCP. Call it before starting threads. Without Landlock files are not limited. Returns "" or what the system refused.
std::string confine(const Confinement& confinement);

// Of a worker of a device: system calls that change the machine or other processes are refused (EPERM); drivers need
// none of them.
bool forbid_changes_of_system();
// Of the emulator, once its library is open and its request is read: all calls but those for memory of its own, clocks,
// and the answer on kWorkerSocket end it (SIGSYS).
bool forbid_all_but_answering();

}  // namespace tw
