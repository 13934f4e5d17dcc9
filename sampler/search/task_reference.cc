#include "sampler/search/task_reference.h"

#include "dsl/analysis/points.h"
#include "dsl/base/text.h"
#include "sampler/search/device_checks.h"
#include "sampler/search/sampled_reference.h"
#include "sampler/search/trial.h"

namespace tw {

std::optional<TaskReference> make_reference(const Program& program, const Target& target, const Target& processor,
                                            LlvmCompiler& compiler, const ReferenceOptions& options,
                                            const std::function<bool()>& stop, std::string& problem) {
  TaskReference made;
  made.begin.tolerance = tolerance_of(program);
  made.begin.seed = options.seed;
  std::optional<SampledReference> sample;
  if (points_of(program) > kReferencePoints && options.may_sample)
    sample = sample_reference(program, options.seed, stop);
  if (stop && stop()) return std::nullopt;
  if (sample) {
    made.begin.reference.manifest.run = sample->arguments;
    made.begin.samples = sample->samples;
  } else {
    BuiltKernel reference = build_reference(program, processor, compiler);
    if (!reference.kernel) {
      problem = cat("the reference program cannot be compiled: ", reference.problem);
      return std::nullopt;
    }
    made.begin.reference = std::move(*reference.kernel);
  }
  if (options.many_kernels && is_device(target))
    made.checks = device_checks(program, target, sample ? &*sample : nullptr);
  return made;
}

TaskStart begin_referenced_task(Measurer& measurer, const TaskReference& reference) {
  const BeginTaskMessage& begin = reference.begin;
  TaskStart start =
      begin.samples[0].empty()
          ? measurer.begin_task(begin.reference, begin.tolerance, begin.seed)
          : measurer.begin_sampled_task({begin.reference.manifest.run, begin.samples}, begin.tolerance, begin.seed);
  if (start.task < 0)
    start.error = cat("the reference program cannot be run: ", start.error);
  else if (!reference.checks.empty())
    measurer.check_on_device(start.task, reference.checks);
  return start;
}

}  // namespace tw
