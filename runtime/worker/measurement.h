// One measurement in the worker: prepares the buffers, forks the child, leads it through its phases
// and judges what it left:
//   check     outputs poisoned; both layouts run with different data; outputs and slack compared
//   time      samples; their sum must agree with this process's clock; a time that the machine
//   cannot reach is taken again, then
//             refused; once more, longer, where MeasureOptions::confirmation asks for it; outputs compared
//   recheck   the data of the layouts are swapped in place; in layout 0 outputs and scratch keep
//   what timing left there, in layout 1
//             they are poisoned; both run again and are compared. With new data the kernel must be
//             about as fast as when it was timed. Left out for one that is not faster than the incumbent
// So neither results kept from an earlier call nor ones that only look computed pass.
#pragma once
#include <vector>

#include "runtime/worker/child_process.h"
#include "runtime/worker/task.h"

namespace tw {

// What all measurements of this worker share.
struct WorkerState {
  Sandbox sandbox;
  int tuner = kWorkerSocket;
  std::vector<int> cpus;  // of the kernel's threads, the measuring one first
  i64 memory_bytes = 0;
  double reference_timeout_seconds = 0;
  int schedstat = -1;   // this process's own waits
  double fma_peak = 0;  // f32 operations a second of one core, the most that was ever seen; 0 = unknown
};

// The kernel that candidates are timed in turn with. The first measurement allocates its packed operands and scratch;
// later ones use them again.
struct Incumbent {
  Kernel kernel;
  BufferList own;
  KernelBinding at;  // of layout 0
  int threads = 0;   // that its scratch is for
  bool is_packed = false;
};

// Runs the reference of a new task in both layouts and keeps its outputs. Returns why it could not.
TaskFailure run_reference(WorkerState& worker, Task& task, const Kernel& reference, double& seconds);

// `incumbent` may be null; `incumbent_seconds` is its smallest time so far, 0 = unknown.
MeasureResult measure_candidate(WorkerState& worker, Task& task, const Kernel& candidate, Incumbent* incumbent,
                                double incumbent_seconds, const MeasureOptions& options);

}  // namespace tw
