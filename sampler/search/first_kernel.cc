#include "sampler/search/first_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/backend.h"
#include "dsl/base/clock.h"
#include "sampler/search/trial.h"
#include "sampler/space/parallel_for.h"
#include "sampler/strategies/evolutionary.h"

namespace tw {
namespace {

// What a thread needs to rate a candidate by its code.
class CodeRater {
 public:
  CodeRater(const CandidateSpace& space, const Target& target)
      : target_(target), builder_(space), draft_(space.feature_target) {}

  // Seconds of a call; infinity for what does not compile.
  double seconds(Candidate candidate) {
    Result<double> rated = rate(candidate);
    return rated ? *rated : std::numeric_limits<double>::infinity();
  }

 private:
  Result<double> rate(Candidate& candidate) {
    if (!compiler_) {
      TW_TRY(LlvmCompiler made, LlvmCompiler::create(codegen_target(target_)));
      compiler_.emplace(std::move(made));
    }
    TW_TRY(Program program, builder_.build(candidate, nullptr));
    Arena arena(1 << 18);
    TW_TRY(LoweredProgram lowered, lower(arena, program, lowering_options(target_)));
    TW_TRY(double cycles, compiler_->cycles(lowered, "kernel"));
    return draft_.sum(program).seconds_with(cycles);
  }

  const Target& target_;
  CandidateBuilder builder_;
  DraftModel draft_;
  std::optional<LlvmCompiler> compiler_;
};

// What the draft model expects of a loop body.
struct Body {
  double issued, runs;
};

// Sums of the same numbers in another order are the same.
bool is_same(double a, double b) { return std::abs(a - b) <= 1e-9 * a; }

// Each draft that builds, with its body, in order, until visit() gives false.
void each_body(const CandidateSpace& space, const std::vector<Candidate>& drafts,
               const std::function<bool(const Candidate&, const Body&)>& visit) {
  CandidateBuilder builder(space);
  DraftModel draft(space.feature_target);
  for (const Candidate& candidate : drafts) {
    Candidate copy = candidate;
    Result<Program> program = builder.build(copy, nullptr);
    if (!program) continue;
    const DraftSum& sum = draft.sum(*program);
    if (!visit(candidate, {sum.issued(), sum.body_runs()})) return;
  }
}

struct Rated {
  Candidate candidate;
  Body body;
  double seconds = std::numeric_limits<double>::infinity();
};

// The first candidates of at most `count` different loop bodies.
std::vector<Rated> different_bodies(const CandidateSpace& space, const std::vector<Candidate>& drafts,
                                    std::size_t count) {
  std::vector<Rated> different;
  each_body(space, drafts, [&](const Candidate& candidate, const Body& own) {
    bool is_known = std::any_of(different.begin(), different.end(),
                                [&](const Rated& other) { return is_same(own.issued, other.body.issued); });
    if (!is_known) different.push_back({candidate, own});
    return different.size() < count;
  });
  return different;
}

// The first candidates with a body's instructions whose sums are unrolled by other numbers, and which the draft model
// holds for as fast.
std::vector<Rated> other_unrollings(const CandidateSpace& space, const std::vector<Candidate>& drafts,
                                    const Rated& like) {
  constexpr double kAsFast = 1.01;
  std::vector<Rated> different;
  each_body(space, drafts, [&](const Candidate& candidate, const Body& own) {
    if (candidate.draft > kAsFast * like.candidate.draft) return false;
    bool is_known = std::any_of(different.begin(), different.end(),
                                [&](const Rated& other) { return is_same(own.runs, other.body.runs); });
    if (is_same(own.issued, like.body.issued) && !is_same(own.runs, like.body.runs) && !is_known)
      different.push_back({candidate, own});
    return true;
  });
  return different;
}

// The drafts whose programs are preferred, in order.
std::vector<Candidate> preferred_of(const CandidateSpace& space, const std::vector<Candidate>& drafts,
                                    const Preferred& preferred) {
  std::vector<Candidate> kept;
  CandidateBuilder builder(space);
  for (const Candidate& candidate : drafts) {
    Candidate copy = candidate;
    Result<Program> program = builder.build(copy, nullptr);
    if (program && preferred(*program)) kept.push_back(candidate);
  }
  return kept;
}

// Estimates candidates by their machine code, on several threads.
class CodeRaters {
 public:
  CodeRaters(const CandidateSpace& space, const Target& target, int threads, const std::function<bool()>& stop)
      : space_(space), target_(target), stop_(stop), raters_(static_cast<std::size_t>(std::max(1, threads))) {}

  // With their seconds, the fastest first.
  std::vector<Rated> rate(std::vector<Rated> rated) {
    parallel_for(static_cast<int>(rated.size()), static_cast<int>(raters_.size()), [&](int item, int thread) {
      if (stop_ && stop_()) return;
      std::optional<CodeRater>& rater = raters_[static_cast<std::size_t>(thread)];
      if (!rater) rater.emplace(space_, target_);
      Rated& own = rated[static_cast<std::size_t>(item)];
      own.seconds = rater->seconds(own.candidate);
    });
    std::stable_sort(rated.begin(), rated.end(), [](const Rated& a, const Rated& b) { return a.seconds < b.seconds; });
    return rated;
  }

 private:
  const CandidateSpace& space_;
  const Target& target_;
  const std::function<bool()>& stop_;
  std::vector<std::optional<CodeRater>> raters_;
};

// The first draft without a time where nothing compiles; there is one.
Rated fastest_code(const CandidateSpace& space, const std::vector<Candidate>& drafts, const Target& target, int threads,
                   const std::function<bool()>& stop) {
  CodeRaters raters(space, target, threads, stop);
  std::vector<Rated> bodies = raters.rate(different_bodies(space, drafts, kCompiledDrafts));
  if (bodies.empty() || std::isinf(bodies[0].seconds)) return {drafts[0], {}};
  std::vector<Rated> others;
  for (std::size_t i = 0; i < std::min(bodies.size(), kUnrolledDrafts); ++i)
    std::ranges::move(other_unrollings(space, drafts, bodies[i]), std::back_inserter(others));
  others = raters.rate(std::move(others));
  return !others.empty() && others[0].seconds < bodies[0].seconds ? others[0] : bodies[0];
}

// The drafts of a search without a model, for one kernel.
std::vector<Candidate> drafts_of(CandidateSpace& space, const RoundOptions& options, const Rng& rng,
                                 KnownCandidates& known, SearchStats& stats, const EvolutionOptions& evolution) {
  Round round{.space = space,
              .elites = {},
              .measured = {},
              .times = {},
              .model = nullptr,
              .acquisition = {},
              .count = 1,
              .rng = rng,
              .known = known,
              .stats = stats,
              .options = options};
  return best_drafts(round, evolution);
}

}  // namespace

std::optional<Candidate> choose_first_kernel(const CandidateSpace& space, const std::vector<Candidate>& drafts,
                                             const Target& target, int threads, const std::function<bool()>& stop,
                                             const Preferred& preferred) {
  if (drafts.empty()) return std::nullopt;
  if (is_device(target)) return drafts[0];
  Rated fastest = fastest_code(space, drafts, target, threads, stop);
  if (!preferred || !preferred_of(space, {fastest.candidate}, preferred).empty()) return fastest.candidate;
  std::vector<Candidate> kept = preferred_of(space, drafts, preferred);
  if (kept.empty()) return fastest.candidate;
  Rated other = fastest_code(space, kept, target, threads, stop);
  return other.seconds <= kPreferredSlower * fastest.seconds ? other.candidate : fastest.candidate;
}

std::optional<Candidate> find_first_kernel(CandidateSpace& space, const Target& target, const RoundOptions& options,
                                           const Rng& rng, KnownCandidates& known, SearchStats& stats,
                                           const Preferred& preferred) {
  std::vector<Candidate> drafts = drafts_of(space, options, rng, known, stats, {});
  double begin = seconds_now();
  std::optional<Candidate> first = choose_first_kernel(space, drafts, target, options.threads, options.stop, preferred);
  stats.first_kernel_seconds += seconds_now() - begin;
  return first;
}

double estimated_seconds(CandidateSpace& space, const Target& target, const RoundOptions& options, const Rng& rng) {
  constexpr EvolutionOptions kFew{.population = 48, .draws = 192, .generations = 2};
  KnownCandidates known;
  SearchStats stats;
  std::vector<Candidate> drafts = drafts_of(space, options, rng, known, stats, kFew);
  std::vector<Rated> rated =
      CodeRaters(space, target, options.threads, options.stop).rate(different_bodies(space, drafts, kEstimatedDrafts));
  return rated.empty() ? std::numeric_limits<double>::infinity() : rated[0].seconds;
}

}  // namespace tw
