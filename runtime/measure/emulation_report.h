// What an emulated kernel did (runtime/emulation/emulation.h). Shared by the library and the program that runs the
// kernel.
#pragma once
#include <string>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

enum class EmulationStatus : u8 {
  Ok,             // ran to the end without a finding; what it computed is for the caller to judge
  Unavailable,    // no compiler, no emulator program, no memory: nothing is known about the kernel
  BuildError,     // the text is no C++; message: the compiler's first words
  Launch,         // more threads than __launch_bounds__ allows
  OutOfBounds,    // also writes to inputs and accesses to memory that is none of the kernel's
  Misaligned,     // a vector access at an address that is no multiple of its size
  Uninitialised,  // a read of what nothing has written
  Race,           // two threads or groups at one element, unordered
  Barrier,        // not all threads of the group reach a barrier, or not the same one
  Deadlock,       // threads wait for each other
  Async,          // memory is touched while an asynchronous copy is on its way to it
  Arithmetic,     // 32-bit overflow, division by zero, a shift too far
  Crash,          // a signal
  Timeout,
};
inline constexpr int kEmulationStatuses = 14;
const char* name_of(EmulationStatus status);  // "ok", "race", ...

struct EmulationOptions {
  u64 seed = 1;  // of the order of threads and groups
  int runs = 1;  // with seed, seed + 1, ...; the first finding ends it
  // Of each launch at most so many groups run: the last, the first, and some drawn from the seed. What the others would
  // have written stays a pattern, and reading it in a later launch is no finding. 0 = all.
  i64 max_groups = 0;
  // With max_groups: a launch that others follow runs whole where that takes, with those before it, at most so many
  // seconds of processor time. What some groups of the last launch compute can then be compared.
  double chain_seconds = 0;
  double timeout_seconds = 20;  // of processor time, all runs together
};

struct EmulationReport {
  EmulationStatus status = EmulationStatus::Unavailable;
  std::string message;             // one sentence: kernel, group, thread, buffer, index; empty if Ok
  bool is_complete = false;        // every group of every launch ran
  bool is_chain_complete = false;  // every group of every launch but the last ran
  // Sums over the launches of the first run.
  i64 launches = 0, groups = 0, barriers = 0, global_accesses = 0, shared_accesses = 0;
  // Of one group of each launch: accesses of whole warps to shared memory, asynchronous copies to it among them, and
  // how many more rounds than for conflict-free addresses the 32 banks of 4 bytes need for them.
  i64 warp_accesses = 0, bank_conflicts = 0;
};

// Who wrote each element of an output.
enum class WrittenBy : char { None, EarlierLaunch, LastLaunch };

// What was written in the last run.
struct EmulationWrites {
  struct Output {
    std::string name, elements;  // a WrittenBy for each element
  };
  std::vector<i64> last_groups;  // of the last launch, those that ran, by number (x first, then y, then z)
  std::vector<Output> outputs;
  // Bytes of scratch memory that a launch was given and has not written; of launches before the last one all groups of
  // which ran. `launch`: counted without those that pack constants. Of very many the first ones.
  struct Gap {
    i64 launch = 0, begin = 0, end = 0;
  };
  std::vector<Gap> gaps;
};

}  // namespace tw
