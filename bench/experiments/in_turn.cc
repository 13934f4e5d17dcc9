#include "bench/experiments/in_turn.h"

#include <algorithm>

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

// The untuned program may take seconds a call: its two checked calls say enough, but where all are compared with it.
MeasureOptions options_of(const TuneTask& task, const Contender& program, bool is_fastest) {
  MeasureOptions options{.threads = task.target.threads};
  if (program.trace.empty()) options.timeout_seconds = 30, options.checked_call_seconds = is_fastest ? 0 : 0.02;
  return options;
}

}  // namespace

std::map<std::string, double> times_in_turn(const TuneTask& task, const std::map<std::string, Contender>& programs,
                                            int rounds, Measurer& measurer) {
  std::map<std::string, double> seconds;
  std::map<std::string, Kernel> kernels;
  for (const auto& [name, program] : programs) {
    if (std::optional<Kernel> kernel = kernel_of(task, program.trace)) kernels.emplace(name, std::move(*kernel));
  }
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(task.target));
  if (kernels.empty() || !compiler) return seconds;
  TaskStart begun = begin_judged_task(measurer, task.program.program, task.target, *compiler, 1);
  if (begun.task < 0) return seconds;
  const auto& [fastest, incumbent] =
      *std::ranges::min_element(kernels, {}, [&](const auto& each) { return programs.at(each.first).searched; });
  MeasureResult first = measurer.measure(begun.task, incumbent, options_of(task, programs.at(fastest), true));
  std::map<std::string, std::vector<double>> ratios;
  for (int round = 0; round < rounds && first.seconds > 0; ++round) {
    for (const auto& [name, kernel] : kernels) {
      MeasureOptions options = options_of(task, programs.at(name), name == fastest);
      options.incumbent = &incumbent;
      MeasureResult result = measurer.measure(begun.task, kernel, options);
      if (result.ratio > 0) ratios[name].push_back(result.ratio);
    }
  }
  measurer.end_task(begun.task);
  for (const auto& [name, each] : ratios) seconds[name] = median(each) * first.seconds;
  return seconds;
}

}  // namespace tw::bench
