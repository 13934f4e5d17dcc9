#include "sampler/search/finalists.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include "backends/cuda/promised_opcodes.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/lists/device_file.h"
#include "sampler/search/trial.h"
#include "sampler/space/parallel_for.h"
#include "sampler/strategies/evolutionary.h"
#include "sampler/strategies/selection.h"

namespace tw {
namespace {

// One candidate on its way through the compiler.
struct Attempt {
  std::optional<Finalist> finalist;
  const char* stage = "";  // that refused it
  std::string why;
  bool was_compiled = false;
};

// What evolution proposes, with what the model thinks of it.
struct Proposal {
  Candidate candidate;
  double draft_seconds = 0;
  std::vector<i64> family;
};

constexpr double kGoodPart = 0.2;  // of the time of all kernels

// Of the kernels that take a good part of the time: what adds the parts of a split sum is much the same in any shape.
std::vector<i64> family_of(const std::vector<KernelEstimate>& kernels) {
  std::vector<i64> out;
  double all = 0;
  for (const KernelEstimate& kernel : kernels) all += kernel.seconds;
  for (const KernelEstimate& kernel : kernels) {
    if (kernel.seconds < kGoodPart * all) continue;
    out.insert(out.end(), {kernel.blocks(), kernel.block_threads(), static_cast<i64>(kernel.shared_bytes)});
  }
  return out;
}

constexpr double kNearlyAsFast = 1.25;
constexpr int kPool = 1024;  // candidates that families are looked for in, unless more finalists are wanted

template <class T>
void sort_by_draft(std::vector<T>& list) {
  std::stable_sort(list.begin(), list.end(), [](const T& a, const T& b) { return a.draft_seconds < b.draft_seconds; });
}

// The best first; before the second one of a family the first of all others that are nearly as fast.
template <class T>
void spread_families(std::vector<T>& list) {
  sort_by_draft(list);
  std::set<std::vector<i64>> met;
  std::vector<T> first, rest;
  double best = list.empty() ? 0 : list[0].draft_seconds;
  for (T& one : list) {
    bool is_first = one.draft_seconds <= kNearlyAsFast * best && met.insert(one.family).second;
    (is_first ? first : rest).push_back(std::move(one));
  }
  std::move(rest.begin(), rest.end(), std::back_inserter(first));
  list = std::move(first);
}

template <class T>
void keep(std::vector<T>& list, int count) {
  if (static_cast<int>(list.size()) > count) list.erase(list.begin() + count, list.end());
}

class FinalistSearch {
 public:
  FinalistSearch(const TuneTask& task, const FinalistOptions& options, CandidateSpace space,
                 const std::atomic<bool>& stop)
      : task_(task), options_(options), space_(std::move(space)), stop_(stop) {
    round_.threads = options.threads > 0 ? options.threads : usable_threads();
    if (options.seconds > 0) end_ = seconds_now() + options.seconds;
  }

  FinalistResult run() {
    int pool = std::max(2 * options_.count, std::min(32 * options_.count, kPool));
    for (int round = 0; round < options_.rounds && !(round == 0 ? stop_.load() : is_over()); ++round) {
      double begin = seconds_now();
      std::vector<Candidate> proposed = of_all_families(propose(pool, Rng(options_.seed, static_cast<u64>(round))));
      result_.search_seconds += seconds_now() - begin;
      if (proposed.empty()) break;
      bool is_better = compile(proposed);
      if (!is_better && is_full()) break;
    }
    std::stable_sort(result_.finalists.begin(), result_.finalists.end(),
                     [](const Finalist& a, const Finalist& b) { return a.seconds < b.seconds; });
    return std::move(result_);
  }

 private:
  bool is_over() const { return stop_ || seconds_now() >= end_; }
  bool is_full() const { return static_cast<int>(result_.finalists.size()) >= options_.count; }

  // Where nothing is learned from it, what the model thinks little of is not worth a compilation: the best are taken.
  std::vector<Candidate> propose(int count, const Rng& rng) {
    Round round{space_, elites_, tried_, {}, nullptr, {}, count, rng, known_, result_.stats, round_};
    return select_batch(strategy_.propose(round), round, {.epsilon = 0, .unproven_share = 1});
  }

  // Of many candidates twice as many as there are places.
  std::vector<Candidate> of_all_families(const std::vector<Candidate>& candidates) const {
    std::vector<Proposal> proposals;
    CandidateBuilder builder(space_);
    GpuDraft draft(*space_.gpu);
    for (const Candidate& candidate : candidates) {
      Candidate copy = candidate;
      Result<Program> program = builder.build(copy, nullptr);
      TW_CHECK(program, "a candidate that was built cannot be built again");
      double seconds = draft.seconds(*program);
      proposals.push_back({candidate, seconds, family_of(draft.kernels())});
    }
    spread_families(proposals);
    keep(proposals, 2 * options_.count);
    sort_by_draft(proposals);
    std::vector<Candidate> out;
    for (Proposal& proposal : proposals) out.push_back(std::move(proposal.candidate));
    return out;
  }

  // True if a finalist came of it.
  bool compile(const std::vector<Candidate>& proposed) {
    std::vector<Attempt> attempts(proposed.size());
    double begin = seconds_now();
    parallel_for(static_cast<int>(proposed.size()), round_.threads, [&](int item, int) {
      bool is_first = result_.finalists.empty() && item < round_.threads;
      if (is_first ? !stop_ : !is_over())
        attempts[static_cast<std::size_t>(item)] = attempt(proposed[static_cast<std::size_t>(item)]);
    });
    result_.compile_seconds += seconds_now() - begin;
    bool is_better = false;
    double worst = is_full() ? result_.finalists.back().draft_seconds : 0;
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      Attempt& one = attempts[i];
      if (!one.finalist && *one.stage == '\0') continue;  // not begun before the stop
      tried_.insert(proposed[i].program);
      result_.compiled += one.was_compiled;
      if (!one.finalist) {
        drop(one.stage, one.why);
        continue;
      }
      is_better |= worst == 0 || one.finalist->draft_seconds < worst;
      result_.finalists.push_back(std::move(*one.finalist));
    }
    spread_families(result_.finalists);
    while (!is_over() && check_best()) spread_families(result_.finalists);
    keep(result_.finalists, options_.count);
    sort_by_draft(result_.finalists);
    elites_.clear();
    for (const Finalist& finalist : result_.finalists) elites_.push_back(finalist.candidate);
    return is_better;
  }

  void drop(const char* stage, const std::string& why, const Trace* trace = nullptr) {
    FinalistResult::Dropped& dropped = result_.dropped[stage];
    if (dropped.count++ > 0) return;
    dropped.example = why;
    if (trace) dropped.trace = *trace;
  }

  // Sends the best that are not checked yet through the gate, which takes longer than all before it. False: there are
  // none.
  bool check_best() {
    if (!options_.gate) return false;
    std::vector<Finalist*> best;
    for (std::size_t i = 0; i < result_.finalists.size() && static_cast<int>(i) < options_.count; ++i) {
      if (!result_.finalists[i].is_checked) best.push_back(&result_.finalists[i]);
    }
    parallel_for(static_cast<int>(best.size()), round_.threads, [&](int item, int) {
      Finalist& finalist = *best[static_cast<std::size_t>(item)];
      CandidateBuilder builder(space_);
      Candidate candidate = finalist.candidate;
      Result<Program> program = builder.build(candidate, nullptr);
      TW_CHECK(program, "a candidate that was built cannot be built again");
      finalist.gate = options_.gate(finalist.source, *program);
      finalist.is_checked = true;
    });
    for (const Finalist* finalist : best) {
      if (!finalist->gate.wrong.empty()) drop("emulation", finalist->gate.wrong, &finalist->trace);
    }
    std::erase_if(result_.finalists, [](const Finalist& finalist) { return !finalist.gate.wrong.empty(); });
    return !best.empty();
  }

  Attempt attempt(const Candidate& proposed) const {
    Attempt out;
    CandidateBuilder builder(space_);
    Candidate candidate = proposed;
    Result<Program> program = builder.build(candidate, nullptr);
    Result<Trace> trace = full_trace(space_, candidate);
    TW_CHECK(program && trace, "a candidate that was built cannot be built again");
    Arena arena(1 << 18);
    const Target& target = task_.target;
    Result<LoweredGpuProgram> lowered = lower_gpu(arena, *program, lowering_options(target), gpu_limits(target));
    if (!lowered) return out.stage = "lowering", out.why = to_string(lowered.rejected()), out;
    Result<Kernel> source = device_source(*lowered, target, task_.name);
    if (!source) return out.stage = "lowering", out.why = to_string(source.rejected()), out;
    std::optional<cuda::Compiled> compiled = cuda::compile(source->code, target.arch, out.why);
    out.was_compiled = true;
    if (!compiled) return out.stage = "compiler", out;
    out.why = cuda::why_unfit(*compiled);
    if (!out.why.empty()) return out.stage = "registers", out;
    if (std::string opcode = cuda::missing_opcode(*program, target.arch, *compiled); !opcode.empty())
      return out.stage = "promises", out.why = cat("the machine code has no ", opcode, ", which the schedule promises"),
             out;
    Finalist finalist{.candidate = std::move(candidate),
                      .trace = std::move(*trace),
                      .source = std::move(*source),
                      .compiled = std::move(*compiled)};
    judge(*program, finalist, out);
    if (!out.why.empty()) return out;
    out.finalist = std::move(finalist);
    return out;
  }

  // The model again, with what the compiler made of each kernel; and the limits of the device, which hold for prepack,
  // too.
  void judge(const Program& program, Finalist& finalist, Attempt& out) const {
    std::vector<int> registers;
    const KernelManifest& manifest = finalist.source.manifest;
    for (const auto* launches : {&manifest.prepack_launches, &manifest.run_launches}) {
      for (const KernelLaunch& launch : *launches) {
        finalist.kernels.push_back(fit_of(launch, finalist.compiled));
        if (out.why.empty()) out.why = broken_limit(*space_.gpu, finalist.kernels.back().needs);
        if (launches == &manifest.run_launches)
          registers.push_back(static_cast<int>(finalist.kernels.back().needs.registers));
      }
    }
    if (!out.why.empty()) out.stage = "limits";
    GpuDraft draft(*space_.gpu);
    finalist.draft_seconds = draft.seconds(program, registers);
    std::vector<KernelEstimate> estimate = draft.kernels();  // with the registers that ptxas gave
    finalist.family = family_of(estimate);
    std::size_t prepacked = manifest.prepack_launches.size();
    for (std::size_t i = 0; i < estimate.size() && prepacked + i < finalist.kernels.size(); ++i) {
      FinalistFit& fit = finalist.kernels[prepacked + i];
      add_register_stalls(estimate[i], fit.stalls);
      set_seconds(estimate[i], *space_.gpu);
      fit.seconds = estimate[i].seconds;
      finalist.seconds += estimate[i].seconds;
    }
  }

  FinalistFit fit_of(const KernelLaunch& launch, const cuda::Compiled& compiled) const {
    FinalistFit out{.name = launch.name, .needs = {.threads = launch.threads_of_group()}};
    bool is_found = false;
    for (const cuda::CubinKernel& kernel : compiled.code) {
      if (kernel.name != launch.name) continue;
      out.needs.registers = kernel.registers;
      out.stalls = static_cast<double>(kernel.register_conflicts) / std::max(1, kernel.instructions());
      out.needs.shared_bytes = kernel.shared_bytes + launch.dynamic_shared_bytes;
      is_found = true;
    }
    TW_CHECK(is_found, "a kernel that was compiled is not in the machine code");
    out.blocks = occupancy(*space_.gpu, out.needs);
    return out;
  }

  const TuneTask& task_;
  const FinalistOptions& options_;
  CandidateSpace space_;
  const std::atomic<bool>& stop_;
  RoundOptions round_;
  Evolutionary strategy_{EvolutionOptions()};
  double end_ = std::numeric_limits<double>::infinity();  // by seconds_now
  KnownCandidates known_;
  HashSet tried_;
  std::vector<Candidate> elites_;
  FinalistResult result_;
};

}  // namespace

FinalistResult find_finalists(const TuneTask& task, const rules::Library& library, const FinalistOptions& options,
                              const std::atomic<bool>& stop) {
  FinalistResult failed;
  if (!cuda::nvrtc_version(failed.problem)) return failed;
  failed.problem.clear();
  const std::vector<rules::RuleUse>* uses = library.find_set(options.rules);
  if (!uses) {
    failed.problem = cat("there is no rule set `", options.rules, "`; there are ", join(library.set_names(), ", "));
    return failed;
  }
  if (!device_of(task.target, failed.problem)) return failed;
  CandidateSpace space = make_candidate_space(task.program.program, *uses, library, task.target, failed.problem);
  for (const Trace& trace : task.templates) add_template(space.space, trace);
  if (space.space.sketches.empty() && failed.problem.empty()) failed.problem = "the rules leave no sketch";
  return space.space.sketches.empty() ? std::move(failed) : FinalistSearch(task, options, std::move(space), stop).run();
}

}  // namespace tw
