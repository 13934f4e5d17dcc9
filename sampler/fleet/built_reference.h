// BuiltReference: what results of a program are compared with, as a builder makes it for machines without a compiler.
// Used for tasks (trial_builder.h, built_source.h) and for the kernels of a calibration (calibration.h).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/target.h"
#include "dsl/ir/program.h"
#include "runtime/measure/measurer.h"
#include "runtime/measure/worker_protocol.h"

namespace tw {

// Why a trial cannot be measured here: a fault of the queue.
struct TrialFault {
  std::string_view kind;  // "" = none
  std::string message;
};

struct BuiltReference {
  BeginTaskMessage begin;
  std::vector<DeviceCheck> checks;                // none: results are compared by the processor alone
  double points = 0, bytes = 0, least_flops = 0;  // of a task: as in FleetTask
};

// The reference of a program, which runs on `processor`: a kernel, or for many points a sample of the results.
// `many_kernels`: see begin_judged_task(). nullopt, and the fault; without one if it was stopped.
std::optional<BuiltReference> compile_reference(const Program& program, const Target& target, const Target& processor,
                                                u64 seed, bool many_kernels, const std::function<bool()>& stop,
                                                TrialFault& fault);

// Opens a task with it. On failure the error is a sentence about the reference.
TaskStart begin_built_task(Measurer& measurer, const BuiltReference& reference);

}  // namespace tw
