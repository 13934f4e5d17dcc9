#include "sampler/models/zero_trial.h"

#include "sampler/tasks/export_task.h"
#include "sampler/tasks/load_list.h"
#include "sampler/tasks/rebuild.h"

namespace tw {

std::optional<ExportedTask> zero_trial_kernel(const TuneTask& task, const rules::Library& library,
                                              const ModelOptions& options, std::string& error,
                                              const Preferred& preferred) {
  CandidateSpace space = make_candidate_space(task.program.program, *library.find_set("cpu"), library, task.target,
                                              error, 1, options.stop);
  if (!error.empty()) return std::nullopt;
  space.feature_target.rates = options.rates;
  KnownCandidates known;
  SearchStats stats;
  RoundOptions how{.stop = options.stop};
  Trace trace;
  if (std::optional<Candidate> first =
          find_first_kernel(space, task.target, how, Rng(options.seed).fork(1), known, stats, preferred)) {
    Result<Trace> found = full_trace(space, *first, &error);
    if (!found) return error = to_string(found.rejected()), std::nullopt;
    trace = std::move(*found);
  }
  std::optional<Rebuilt> rebuilt = rebuild(task.program, trace, task.target, error);
  std::optional<Kernel> kernel =
      rebuilt ? compile(*rebuilt, task.target, kernel_symbol(options.library, task.name), error) : std::nullopt;
  if (!kernel) return std::nullopt;
  TraceFile file{TW_VERSION, key_of(task).target, task.program, trace};
  return ExportedTask{.name = task.name,
                      .doc = export_doc(task.program.program),
                      .kernel = std::move(*kernel),
                      .target = task.target,
                      .trace_file = print_trace_file(file),
                      .flops = count_flops(task.program.program)};
}

}  // namespace tw
