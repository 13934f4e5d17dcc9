// The kernels of a calibration (calibration.h): workloads and traces, which are replayed and compiled as any trial's.
// Used by machines that compile, and by builders for those that do not.
#pragma once
#include "backends/target.h"
#include "sampler/fleet/calibration.h"

namespace tw {

// Those for a target; their references run on `processor`. None without a problem: it was stopped.
CalibrationKernels compile_calibration(const Target& target, const Target& processor,
                                       const std::function<bool()>& must_stop);

}  // namespace tw
