// The child: a fork of the worker that loads, calls and times one kernel (and the incumbent), and
// is trusted with nothing else. All memory it uses is laid out by the worker before the fork
// (ChildJob); what it tells is in the shared ChildReport.
#pragma once
#include <vector>

#include "backends/kernel.h"
#include "runtime/worker/sampling.h"
#include "runtime/worker/sandbox.h"

namespace tw {

inline constexpr int kLayouts = 2;  // 0: buffers end at a guard page; 1: buffers start at one

// What the worker asks the child to do; one byte each. The child answers with the same byte when it
// is done.
enum class Phase : char {
  Load = 'l',     // sandbox, loader, thread pool; begins by itself
  Check = 'c',    // for each layout: prepack, then one call of run; only layout 0 if that takes long
  Time = 't',     // take_samples in layout 0
  Confirm = 'f',  // the same, for a confirmation
};

// Where the child is, for messages.
enum class Stage : u8 { Starting, Loading, Prepack, Run, Timing };

struct ChildReport {
  Stage stage = Stage::Starting;
  bool loading_incumbent = false;
  char load_error[400] = {};
  // A signal that the child caught.
  std::int32_t signal = 0, syscall = 0;
  bool writing = false;
  u64 address = 0, stack_pointer = 0, instruction = 0;
  // Where the code of the candidate was loaded.
  u64 code_begin = 0, code_end = 0, data_end = 0;
  double prepack_seconds = 0;  // smallest of all
  double call_seconds[kLayouts] = {},
         pack_seconds[kLayouts] = {};  // of the last checked call in each layout and its prepack
  bool only_one_call = false;          // the first one took longer than single_call_seconds
  SampleLog log;
};

// Pointers of a kernel's entry points in one layout.
struct KernelBinding {
  std::vector<void*> run, prepack;
  void* scratch = nullptr;
};

// Those that come from memory where other kernels run in between: constants, in whatever layout.
ColdOperands cold_operands(const KernelManifest& manifest, const KernelBinding& binding);

struct ChildJob {
  const Kernel* candidate = nullptr;
  const Kernel* incumbent = nullptr;        // may be null
  std::vector<KernelBinding> candidate_at;  // of each layout
  KernelBinding incumbent_at;               // of layout 0
  bool is_incumbent_packed = false;         // by an earlier child
  MeasureOptions options;
  std::vector<int> cpus;  // of the kernel's threads; the first is the measuring one
  i64 memory_bytes = 0;
  int cpu_seconds = 0;
  ChildReport* report = nullptr;
  int commands = -1, events = -1;  // ends of the pipes
};

inline constexpr int kCaughtSignal = 70;  // exit status after a signal that is in the report
inline constexpr int kLoadFailed = 71;    // ... after load_error
inline constexpr int kNoSandbox = 72;

[[noreturn]] void run_child(const ChildJob& job, const Sandbox& sandbox);

}  // namespace tw
