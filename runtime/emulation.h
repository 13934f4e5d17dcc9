// Emulation: runs kernels in CUDA C without a GPU. The text is compiled as C++ by the compiler of this machine, with its own
// instrumentation of memory accesses, against CPU bodies of the device functions (runtime/emulator/device_functions.h), and run by the
// program `tracewright-emulator`, one fiber per thread, in an order drawn from a seed. Used by the search's check without a GPU, by replay
// and the tests. It knows neither workloads nor references, and says nothing about time.
//
// Found are: accesses outside of a buffer, misaligned vectors, reads of what nothing has written, writes to inputs; two threads at one
// element between two barriers, or two groups, one of them writing; barriers that not all threads of the group reach, or not the same one;
// waiting for ever; asynchronous copies that were not waited for; index arithmetic that overflows or divides by zero; launches with more
// threads than the kernel was made for. Registers, shared memory and outputs begin as patterns (NaN).
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/interpreter.h"
#include "backends/kernel.h"

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
  // Of each launch at most so many groups run: first, last, and some drawn from the seed. What the others would have written stays a
  // pattern, and reading it is no finding. 0 = all.
  i64 max_groups = 0;
  double timeout_seconds = 20;  // of all runs together
};

struct EmulationReport {
  EmulationStatus status = EmulationStatus::Unavailable;
  std::string message;  // one sentence: kernel, group, thread, buffer, index; empty if Ok
  bool is_complete = false;  // every group of every launch ran
  // Sums over the launches of the first run.
  i64 groups = 0, barriers = 0, global_accesses = 0, shared_accesses = 0;
  // Of one group of each launch: accesses of whole warps to shared memory, and how many more rounds than for conflict-free addresses the
  // 32 banks of 4 bytes need for them.
  i64 warp_accesses = 0, bank_conflicts = 0;
};

using NamedArrays = std::map<std::string, HostArray, std::less<>>;

// Kernels that are compiled, as one library, and can be run. The files of it go with the object.
class EmulatedKernels {
 public:
  // Symbols of the kernels' manifests must differ. Null with why in `report` (Unavailable, BuildError).
  static std::unique_ptr<EmulatedKernels> compile(std::span<const Kernel* const> kernels, EmulationReport& report);
  ~EmulatedKernels();
  EmulatedKernels(const EmulatedKernels&) = delete;
  EmulatedKernels& operator=(const EmulatedKernels&) = delete;

  // Runs prepack, if there is one, and the kernel, in a process of its own. `arrays` holds inputs and constants by name and gets the outputs,
  // those of the last run; they are left out unless the status is Ok.
  EmulationReport run(std::size_t index, NamedArrays& arrays, const EmulationOptions& options = {}) const;

 private:
  EmulatedKernels() = default;
  std::string folder_, library_;
  std::vector<KernelManifest> manifests_;
};

// One kernel: compile and run.
EmulationReport emulate(const Kernel& kernel, NamedArrays& arrays, const EmulationOptions& options = {});

// The compiler that would be used: $TRACEWRIGHT_CXX, else g++, c++ or clang++ from the path. "" with what was tried in `error`.
std::string emulation_compiler(std::string& error);

}  // namespace tw
