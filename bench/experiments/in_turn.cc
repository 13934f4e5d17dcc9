#include "bench/experiments/in_turn.h"

#include "backends/backend.h"
#include "dsl/base/quantile.h"
#include "dsl/schedule/parse_schedule.h"
#include "sampler/search/trial.h"
#include "sampler/tasks/rebuild.h"

namespace tw::bench {
namespace {

std::optional<Kernel> kernel_of(const TuneTask& task, const std::string& trace) {
  Source source{"trace", trace};
  Diagnostics diagnostics(source);
  std::optional<Trace> parsed = parse_schedule(source, diagnostics);
  if (!parsed) return std::nullopt;
  std::string error;
  std::optional<Rebuilt> rebuilt = rebuild(task.program, *parsed, task.target, error);
  return rebuilt ? compile(*rebuilt, task.target, "kernel", error) : std::nullopt;
}

}  // namespace

std::map<std::string, double> times_in_turn(const TuneTask& task, const std::map<std::string, std::string>& traces,
                                            int rounds, Measurer& measurer) {
  std::map<std::string, double> seconds;
  std::map<std::string, Kernel> kernels;
  for (const auto& [name, trace] : traces) {
    if (std::optional<Kernel> kernel = kernel_of(task, trace)) kernels.emplace(name, std::move(*kernel));
  }
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(task.target));
  if (kernels.empty() || !compiler) return seconds;
  TaskStart begun = begin_judged_task(measurer, task.program.program, task.target, *compiler, 1);
  if (begun.task < 0) return seconds;
  MeasureOptions options{.threads = task.target.threads};
  MeasureResult first = measurer.measure(begun.task, kernels.begin()->second, options);
  options.incumbent = &kernels.begin()->second;
  std::map<std::string, std::vector<double>> ratios;
  for (int round = 0; round < rounds && first.seconds > 0; ++round) {
    for (const auto& [name, kernel] : kernels) {
      MeasureResult result = measurer.measure(begun.task, kernel, options);
      if (result.ratio > 0) ratios[name].push_back(result.ratio);
    }
  }
  measurer.end_task(begun.task);
  for (const auto& [name, each] : ratios) seconds[name] = median(each) * first.seconds;
  return seconds;
}

}  // namespace tw::bench
