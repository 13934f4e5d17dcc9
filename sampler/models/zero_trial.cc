#include "sampler/models/zero_trial.h"

#include "sampler/models/cuda_kernels.h"
#include "sampler/tasks/export_task.h"
#include "sampler/tasks/load_list.h"
#include "sampler/tasks/rebuild.h"

namespace tw {
namespace {

// Without instructions where no rule applies.
std::optional<Trace> first_trace(const TuneTask& task, const OwnedProgram& program, const rules::Library& library,
                                 const ModelOptions& options, const Preferred& preferred, std::string& error) {
  CandidateSpace space = make_candidate_space(program.program, *library.find_set(name_of(task.target.kind)), library,
                                              task.target, error, 1, options.stop);
  if (!error.empty()) return std::nullopt;
  space.feature_target.rates = options.rates;
  // A device that nobody describes is taken for a processor, as PoCL is one, which runs groups on all of its threads.
  if (task.target.kind == TargetKind::OpenCl) space.feature_target.threads = usable_threads();
  KnownCandidates known;
  SearchStats stats;
  RoundOptions how{.stop = options.stop};
  std::optional<Candidate> first =
      find_first_kernel(space, task.target, how, Rng(options.seed).fork(1), known, stats, preferred);
  if (!first) return Trace();
  Result<Trace> found = full_trace(space, *first, &error);
  if (!found) return error = to_string(found.rejected()), std::nullopt;
  return std::move(*found);
}

}  // namespace

std::optional<ExportedTask> zero_trial_kernel(const TuneTask& task, const rules::Library& library,
                                              const ModelOptions& options, std::string& error,
                                              const Preferred& preferred, const OwnedProgram* placed) {
  const OwnedProgram& program = placed ? *placed : task.program;
  bool is_cuda = task.target.kind == TargetKind::Cuda;
  std::optional<Trace> trace = is_cuda ? first_cuda_trace(task, library, options.seed, error) : std::nullopt;
  if (!trace && error.empty()) trace = first_trace(task, program, library, options, preferred, error);
  std::optional<Rebuilt> rebuilt = trace ? rebuild(program, *trace, task.target, error) : std::nullopt;
  std::optional<Kernel> kernel =
      rebuilt ? compile(*rebuilt, task.target, kernel_symbol(options.library, task.name), error) : std::nullopt;
  if (!kernel) return std::nullopt;
  TraceFile file{TW_VERSION, key_of(task).target, task.program, *trace};
  return ExportedTask{.name = task.name,
                      .doc = export_doc(task.program.program),
                      .kernel = std::move(*kernel),
                      .target = task.target,
                      .trace_file = print_trace_file(file),
                      .flops = count_flops(task.program.program)};
}

}  // namespace tw
