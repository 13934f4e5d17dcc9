// What the processes beside the measuring child (runtime/worker/sandbox.h) are held to: the emulator, the compiler that it needs, and the
// workers of devices. All of it holds for the whole process, for threads that it starts later, and for the programs that it starts.
#pragma once
#include <string>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

struct Confinement {
  i64 data_bytes = 0;                  // of memory that is its own and may be written, beyond what it has; 0 = as much as there is
  int cpu_seconds = 0;                 // beyond what it has used; 0 = no limit
  i64 file_bytes = 0;                  // of the largest file that it writes
  std::vector<std::string> writable;   // folders in which files may be written, made and removed; those that are not there are left out
  bool reads_files = true;             // else none at all is opened any more
};

// No core files, no more rights than now (set-user-id programs get none), no TCP, the above. Call it before there are threads. Where the system has no Landlock,
// files stay open to it. "" or what the system refuses.
std::string confine(const Confinement& confinement);

// Of a worker of a device: system calls that change the machine or other processes are refused (EPERM); drivers need none of them.
bool forbid_changes_of_system();
// Of the emulator, once its library is open and its request is read: all calls but those for memory of its own, clocks, and the answer on
// kWorkerSocket end it (SIGSYS).
bool forbid_all_but_answering();

}  // namespace tw
