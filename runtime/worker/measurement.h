// One measurement in the worker: prepares the buffers, forks the child, leads it through its phases and judges what it left:
//   check     outputs poisoned; both layouts run with different data; outputs and slack compared
//   time      samples; their sum must agree with this process's clock
//   recheck   the data of the layouts are swapped in place; outputs of layout 0 keep what timing left there, those of layout 1 and
//             all scratch are poisoned; both run again and are compared
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
  int schedstat = -1;     // this process's own waits
};

// Runs the reference of a new task in both layouts and keeps its outputs. Returns "" or why not.
std::string run_reference(const WorkerState& worker, Task& task, const Kernel& reference, double& seconds);

// `incumbent` may be null; `incumbent_seconds` is its smallest time so far, 0 = unknown.
MeasureResult measure_candidate(const WorkerState& worker, Task& task, const Kernel& candidate, const Kernel* incumbent,
                                double incumbent_seconds, const MeasureOptions& options);

}  // namespace tw
