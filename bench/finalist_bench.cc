// Speed of the search for a GPU that is not there (sampler/search/finalists.h).
//   finalist_bench [RULES [ARCH]]
// Prints, for some operators, how many different candidates are replayed, postprocessed and scored by the analytic
// model in a second of the search, and how many candidates NVRTC compiles in a second, with all threads that this
// process may use; and both in a second of processor time, which other work on the machine disturbs less.
#include <cstdio>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "sampler/search/finalists.h"
#include "sampler/strategies/evolutionary.h"
#include "sampler/strategies/selection.h"

namespace tw::bench {
namespace {

struct Workload {
  const char* op;
  WorkloadArguments arguments;
};

// Rounds of evolution as a search without a device makes them, for three seconds or until the space is used up.
void print_candidates(CandidateSpace& space) {
  RoundOptions options{.threads = usable_threads()};
  Evolutionary strategy{EvolutionOptions()};
  KnownCandidates known;
  SearchStats stats;
  HashSet none;
  double begin = seconds_now(), cpu = processor_seconds();
  std::vector<Candidate> elites;
  i64 before = -1;
  for (u64 number = 0; seconds_now() - begin < 3 && stats.candidates > before; ++number) {
    before = stats.candidates;
    Rng rng(1, number);
    std::vector<Candidate> parents = std::exchange(elites, {});
    Round round{space, parents, none, {}, nullptr, {}, 64, rng, known, stats, options};
    elites = select_batch(strategy.propose(round), round, {});
  }
  double seconds = seconds_now() - begin, found = static_cast<double>(stats.candidates);
  cpu = processor_seconds() - cpu;
  std::printf(
      "  %6lld different candidates, %6lld repeats, %6lld rejected: %.0f different ones a second, %.0f in a second of "
      "processor time\n",
      static_cast<long long>(stats.candidates), static_cast<long long>(stats.repeats),
      static_cast<long long>(stats.rejected), found / seconds, found / cpu);
  double all = static_cast<double>(stats.candidates + stats.repeats + stats.rejected) * 1e-6;
  std::printf("  each of all: replay %.1f us, postprocess %.1f, hash %.1f, draft %.1f (wall clock)\n",
              stats.build.replay / all, stats.build.postprocess / all, stats.build.hash / all, stats.build.draft / all);
}

void print_finalists(const TuneTask& task, const rules::Library& library, const std::string& rules) {
  std::atomic<bool> stop{false};
  double cpu = processor_seconds();
  FinalistResult result = find_finalists(task, library, {.count = 16, .rounds = 2, .rules = rules}, stop);
  if (!result.problem.empty()) return void(std::printf("  %s\n", result.problem.c_str()));
  cpu = (processor_seconds() - cpu) * result.compile_seconds / (result.compile_seconds + result.search_seconds);
  double compiled = static_cast<double>(result.compiled);
  std::printf(
      "  %6lld compiled: %.1f a second, about %.1f in a second of processor time; %zu finalists, the best predicted "
      "%.1f us\n",
      static_cast<long long>(result.compiled), compiled / result.compile_seconds, compiled / cpu,
      result.finalists.size(), result.finalists.empty() ? 0 : result.finalists[0].seconds * 1e6);
  for (const auto& [stage, dropped] : result.dropped)
    std::printf("  %6lld dropped by %s, as: %s\n", static_cast<long long>(dropped.count), stage.c_str(),
                dropped.example.c_str());
}

int run(const std::string& rules, const std::string& arch) {
  const Workload workloads[] = {
      {"matmul", {{"M", i64{1024}}, {"N", i64{1024}}, {"K", i64{1024}}}},
      {"batch_matmul", {{"B", i64{16}}, {"M", i64{128}}, {"N", i64{128}}, {"K", i64{64}}}},
      {"conv2d",
       {{"N", i64{1}},
        {"H", i64{56}},
        {"W", i64{56}},
        {"CI", i64{64}},
        {"CO", i64{64}},
        {"K", i64{3}},
        {"padding", i64{1}}}},
      {"softmax", {{"M", i64{1024}}, {"N", i64{1024}}}},
      {"layernorm", {{"M", i64{1024}}, {"N", i64{1024}}}},
      // By matrix instructions; the second is a long sum of few results.
      {"matmul", {{"M", i64{1024}}, {"N", i64{1024}}, {"K", i64{1024}}, {"T", DType::F16}}},
      {"matmul", {{"M", i64{64}}, {"N", i64{128}}, {"K", i64{8192}}, {"T", DType::BF16}}},
  };
  Source text{"ARCH", cat("cuda -arch=", arch)};
  Diagnostics wrong(text);
  std::optional<Target> target = parse_target(text.text, 0, wrong);
  if (!target) return std::fputs(wrong.render().c_str(), stderr), 2;
  rules::Library library = rules::Library::built_in();
  const std::vector<rules::RuleUse>* uses = library.find_set(rules);
  if (!uses) return std::printf("there is no rule set %s\n", rules.c_str()), 2;
  for (const Workload& workload : workloads) {
    Diagnostics diagnostics(*operator_library().source);
    std::optional<OwnedProgram> program =
        instantiate(operator_library(), workload.op, workload.arguments, {}, diagnostics);
    if (!program) return std::fputs(diagnostics.render().c_str(), stderr), 1;
    TuneTask task{workload.op, std::move(*program), *target, 1, {}};
    std::string errors;
    CandidateSpace space = make_candidate_space(task.program.program, *uses, library, *target, errors);
    if (!errors.empty() || space.space.sketches.empty()) return std::fputs((errors + "no sketch\n").c_str(), stderr), 1;
    std::printf("%s, %s, %s: %zu sketches\n", workload.op, rules.c_str(), arch.c_str(), space.space.sketches.size());
    print_candidates(space);
    print_finalists(task, library, rules);
  }
  return 0;
}

}  // namespace
}  // namespace tw::bench

int main(int argc, char** argv) { return tw::bench::run(argc > 1 ? argv[1] : "cuda", argc > 2 ? argv[2] : "sm_80"); }
