// The first kernel of a task, chosen without a measurement: of the best candidates by the draft model the one whose
// machine code takes the fewest cycles. The code shows what no program does: tests that lowering leaves in a body,
// partial vectors, registers that are too few. Used by BatchSearch, and where a model is compiled without tuning.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "backends/target.h"
#include "sampler/strategies/strategy.h"

namespace tw {

// First the best drafts of kCompiledDrafts loop bodies are compiled. Then, for the kUnrolledDrafts of them with the
// fastest code, those that unroll their sums by other numbers. Each takes 25 ms (docs/experiments.md).
inline constexpr std::size_t kCompiledDrafts = 8, kUnrolledDrafts = 2;

// Which programs a caller would rather have; empty: none.
using Preferred = std::function<bool(const Program& scheduled)>;
// So much slower a preferred candidate may be, by its code: below what the estimate tells apart.
inline constexpr double kPreferredSlower = 1.03;

// `drafts`: fastest first. Those are compiled whose loop bodies issue what none before them issues: others differ in
// outer loops, of which the draft model knows more than the code says, and in how far sums are unrolled. The first
// draft for devices, and where nothing compiles; nothing if there is none. With `preferred` the same is done among the
// preferred drafts, too, and the one that it gives is taken if it is at most kPreferredSlower as slow. The choice does
// not depend on `threads`. Once `stop` is true, it means nothing.
std::optional<Candidate> choose_first_kernel(const CandidateSpace& space, const std::vector<Candidate>& drafts,
                                             const Target& target, int threads, const std::function<bool()>& stop,
                                             const Preferred& preferred = {});

// The same of the best drafts of a search with the draft model alone, with random numbers of `rng`.
std::optional<Candidate> find_first_kernel(CandidateSpace& space, const Target& target, const RoundOptions& options,
                                           const Rng& rng, KnownCandidates& known, SearchStats& stats,
                                           const Preferred& preferred = {});

// About the seconds that a call of the first kernel takes, to compare programs for a processor: the least by machine
// code among the best drafts of kEstimatedDrafts loop bodies, of a smaller search. Infinity where there is no draft or
// none compiles. The same for any number of threads.
inline constexpr std::size_t kEstimatedDrafts = 3;
double estimated_seconds(CandidateSpace& space, const Target& target, const RoundOptions& options, const Rng& rng);

}  // namespace tw
