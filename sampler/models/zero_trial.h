// A task's kernel without any trial: the first kernel that a tune would measure.
#pragma once
#include <optional>
#include <string>

#include "sampler/models/compile_model.h"
#include "sampler/search/first_kernel.h"

namespace tw {

// By the rule set of the target's kind; for `cuda` what first_cuda_trace() finds. With `preferred` programs of that
// kind before others that are hardly faster. Nothing, and why in `error`. The untuned program where no rule applies,
// which on a device is one work-item. `placed`: the task's program on rows that lie apart, for which the kernel is then
// chosen and built; null = on dense buffers.
std::optional<ExportedTask> zero_trial_kernel(const TuneTask& task, const rules::Library& library,
                                              const ModelOptions& options, std::string& error,
                                              const Preferred& preferred = {}, const OwnedProgram* placed = nullptr);

}  // namespace tw
