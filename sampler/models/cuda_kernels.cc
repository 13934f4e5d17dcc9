#include "sampler/models/cuda_kernels.h"

#include <atomic>

#include "dsl/base/text.h"
#include "runtime/store/trace_file.h"
#include "sampler/search/finalists.h"
#include "sampler/space/parallel_for.h"
#include "sampler/tasks/rebuild.h"

namespace tw {
namespace {

EmulationVerdict emulate(const ExportedTask& task, const TuneTask& from) {
  Source source{cat("the trace of ", task.name), task.trace_file};
  Diagnostics diagnostics(source);
  std::optional<TraceFile> file = parse_trace_file(source, diagnostics);
  if (!file) return {.message = diagnostics.render()};
  std::string error;
  std::optional<Rebuilt> rebuilt = rebuild(from.program, file->trace, task.target, error);
  if (!rebuilt) return {.message = error};
  return check_by_emulation(from.program.program, {task.kernel, rebuilt->scheduled});
}

}  // namespace

std::optional<Trace> first_cuda_trace(const TuneTask& task, const rules::Library& library, u64 seed,
                                      std::string& error) {
  std::atomic<bool> never = false;
  // Where nothing of the first few is fit, more are compiled.
  for (FinalistOptions how : {FinalistOptions{.count = 1, .rounds = 1}, FinalistOptions{.count = 16, .rounds = 2}}) {
    how.seed = seed, how.threads = 1;
    FinalistResult found = find_finalists(task, library, how, never);
    if (!found.problem.empty()) return error = found.problem, std::nullopt;
    if (!found.finalists.empty()) return std::move(found.finalists[0].trace);
  }
  return std::nullopt;
}

std::vector<EmulationVerdict> emulate_kernels(const ExportPlan& plan, const ModelTasks& tasks, int threads,
                                              const std::function<bool()>& stop) {
  std::vector<EmulationVerdict> verdicts(plan.tasks.size());
  parallel_for(static_cast<int>(verdicts.size()), threads, [&](int item, int) {
    std::size_t i = static_cast<std::size_t>(item);
    verdicts[i] = stop && stop() ? EmulationVerdict{.message = "interrupted"} : emulate(plan.tasks[i], tasks.tasks[i]);
  });
  return verdicts;
}

}  // namespace tw
