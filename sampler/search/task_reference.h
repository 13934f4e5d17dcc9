// TaskReference: what the results of a task's kernels are compared with. It is made where there is a compiler, and used
// there or by machines without one (sampler/fleet/signed_build.h).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/target.h"
#include "dsl/ir/program.h"
#include "runtime/measure/measurer.h"
#include "runtime/measure/worker_protocol.h"

namespace tw {

struct TaskReference {
  BeginTaskMessage begin;
  std::vector<DeviceCheck> checks;                // none: results are compared by the processor alone
  double points = 0, bytes = 0, least_flops = 0;  // for machines without a compiler: as in FleetTask
};

struct ReferenceOptions {
  u64 seed = 0;  // of the task's data
  // With more points than kReferencePoints: a sample of the results (sampled_reference.h) in place of a kernel.
  bool may_sample = true;
  // Many kernels will be measured, so that a device gets kernels that compare results there (device_checks.h).
  bool many_kernels = false;
};
inline constexpr double kReferencePoints = 1.5e9;  // a few seconds of one core

// The reference of a program for a target; it runs on `processor`, for which `compiler` compiles: the target itself, or
// the processor beside a device. nullopt: see `problem`, a sentence; "" = `stop` was true.
std::optional<TaskReference> make_reference(const Program& program, const Target& target, const Target& processor,
                                            LlvmCompiler& compiler, const ReferenceOptions& options,
                                            const std::function<bool()>& stop, std::string& problem);

// Opens a task with it. On failure the error is a sentence about the reference.
TaskStart begin_referenced_task(Measurer& measurer, const TaskReference& reference);

}  // namespace tw
