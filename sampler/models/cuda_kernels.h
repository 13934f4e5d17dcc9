// Kernels of a model for `cuda` where no GPU is: how one is chosen, and whether it is right.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/export/export.h"
#include "sampler/search/emulation_gate.h"
#include "sampler/tasks/model_tasks.h"

namespace tw {

// The trace of the first finalist (sampler/search/finalists.h): the best by the analytic model of those that NVRTC
// compiles without spilled registers. Nothing where there is none; with why in `error`, where none can be looked for.
std::optional<Trace> first_cuda_trace(const TuneTask& task, const rules::Library& library, u64 seed,
                                      std::string& error);

// Each kernel of a plan in the emulator, on random inputs, compared with what its task says; in the order of the plan's
// tasks. Unknown without a compiler for the emulator, for what is too large (EmulationGateOptions), and for what was
// not begun when `stop` became true.
std::vector<EmulationVerdict> emulate_kernels(const ExportPlan& plan, const ModelTasks& tasks, int threads,
                                              const std::function<bool()>& stop = {});

}  // namespace tw
