#include "sampler/search/first_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/backend.h"
#include "sampler/search/trial.h"
#include "sampler/space/parallel_for.h"

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

// The first candidates of different loop bodies.
std::vector<Candidate> different_bodies(const CandidateSpace& space, const std::vector<Candidate>& drafts) {
  constexpr double kSame = 1e-9;  // sums of the same numbers in another order
  CandidateBuilder builder(space);
  DraftModel draft(space.feature_target);
  std::vector<double> issued;
  std::vector<Candidate> different;
  for (const Candidate& candidate : drafts) {
    if (different.size() == kCompiledDrafts) break;
    Candidate copy = candidate;
    Result<Program> program = builder.build(copy, nullptr);
    if (!program) continue;
    double own = draft.sum(*program).issued();
    auto is_same = [&](double other) { return std::abs(own - other) <= kSame * own; };
    if (std::any_of(issued.begin(), issued.end(), is_same)) continue;
    issued.push_back(own);
    different.push_back(candidate);
  }
  return different;
}

}  // namespace

std::optional<Candidate> choose_first_kernel(const CandidateSpace& space, const std::vector<Candidate>& drafts,
                                             const Target& target, int threads, const std::function<bool()>& stop) {
  if (drafts.empty()) return std::nullopt;
  if (is_device(target)) return drafts[0];
  std::vector<Candidate> compiled = different_bodies(space, drafts);
  std::vector<double> seconds(compiled.size(), std::numeric_limits<double>::infinity());
  std::vector<std::optional<CodeRater>> raters(static_cast<std::size_t>(std::max(1, threads)));
  parallel_for(static_cast<int>(compiled.size()), static_cast<int>(raters.size()), [&](int item, int thread) {
    if (stop && stop()) return;
    std::optional<CodeRater>& rater = raters[static_cast<std::size_t>(thread)];
    if (!rater) rater.emplace(space, target);
    seconds[static_cast<std::size_t>(item)] = rater->seconds(compiled[static_cast<std::size_t>(item)]);
  });
  auto fastest = std::min_element(seconds.begin(), seconds.end());
  if (fastest == seconds.end() || std::isinf(*fastest)) return drafts[0];
  return compiled[static_cast<std::size_t>(fastest - seconds.begin())];
}

}  // namespace tw
