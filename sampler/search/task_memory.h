// How much memory it takes to measure kernels of a workload. It is computed before anything starts, so that what does
// not fit is refused with a message.
#pragma once
#include <string>

#include "backends/target.h"
#include "dsl/ir/program.h"

namespace tw {

// In bytes.
struct TaskMemory {
  double host =
      0;  // of the worker: two sets of data, two layouts of buffers (runtime/worker/task.h), and the reference
  double device = 0;  // inputs and results; 0 for processors
};
TaskMemory memory_of(const Program& program, const Target& target);

// Why the workload cannot be measured here, in one sentence; "" if it can. `device_bytes`: what the target's device
// has; 0 = not known.
std::string why_too_large(const Program& program, const Target& target, i64 device_bytes);

}  // namespace tw
