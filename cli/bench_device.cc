#include "cli/bench_device.h"

#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "sampler/search/trial.h"

namespace tw::cli {

std::optional<DeviceTimes> DeviceBench::measure(const TuneTask& task, const Kernel& kernel, int samples) {
  auto fail = [&](const std::string& why) { return say(cat(task.name, ": ", why)), std::nullopt; };
  const Program& program = task.program.program;
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(task.target));
  if (!compiler) return fail(to_string(compiler.rejected()));
  BuiltKernel built = loadable({kernel, ""}, task.target);
  if (!built.kernel) return fail(built.problem);
  if (target_ != to_string(task.target)) {
    worker_ = {};  // first: a device may take one process at a time
    worker_ = start_worker(worker_options(task.target)), target_ = to_string(task.target);
  }
  if (!worker_.measurer) return fail(worker_.error);
  TaskStart start = begin_judged_task(*worker_.measurer, program, task.target, *compiler, 1);
  if (start.task < 0) return fail(start.error);
  MeasureOptions options{.timeout_seconds = 20,
                         .pairs = samples,
                         .max_pairs = 2 * samples,
                         .budget_seconds = 5,
                         .cold_samples = kColdSamples};
  MeasureResult measured = worker_.measurer->measure(start.task, *built.kernel, options);
  worker_.measurer->end_task(start.task);
  if (measured.status == MeasureStatus::WrongResult)
    return say(cat(task.name, ": ", measured.message)), DeviceTimes{.is_wrong = true};
  if (measured.status != MeasureStatus::Ok && measured.status != MeasureStatus::Noisy)
    return fail(cat(name_of(measured.status), ": ", measured.message));
  return DeviceTimes{measured.median_seconds, measured.lower_quartile, measured.upper_quartile,
                     measured.device_seconds, measured.cold_seconds,   measured.pairs};
}

}  // namespace tw::cli
