// What is said of a kernel that is measured, however it was made: which worker runs it, what its times are taken on,
// and what becomes of its result. Needs no compiler, so that a machine without one can measure (sampler/fleet).
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "backends/target.h"
#include "dsl/ir/compare.h"
#include "runtime/lists/task_list.h"
#include "runtime/measure/measurer.h"
#include "runtime/store/record.h"

namespace tw {

// A kernel, or why there is none (a pass or LLVM refused), as one sentence.
struct BuiltKernel {
  std::optional<Kernel> kernel;
  std::string problem;
};

// The worker that measures kernels for a target.
WorkerOptions worker_options(const Target& target);
// What times are taken on, for records: the processor, behind it the device with that number, where the target is for
// one.
// Times with cold caches are compared with their like only, as if another machine had taken them.
std::string measuring_host(const Target& target, int device, Timing timing = Timing::Warm);
inline constexpr std::string_view kColdCaches = "; cold caches";  // at its end

// Of what build_kernel() gives: object code, or for a device the source (NVRTC does not always make the same machine
// code of it). Two kernels of a target with the same hash do the same.
Hash128 object_hash(const Kernel& kernel);

// Status, message and times of a measurement, in its record.
void set_result(Record& record, const MeasureResult& measured);

}  // namespace tw
