#include "sampler/strategies/reference_mutators.h"

#include <algorithm>

namespace tw {
namespace {

struct Weighed {
  double weight;
  bool (*mutate)(const Trace& trace, const JointPrior& prior, std::vector<Decision>& decisions, Rng& rng);
};
// They add up to 1. The loops that threads share are no decision of our rules, so the last one finds nothing there.
constexpr Weighed kMutators[] = {
    {0.9, mutate_tile_size}, {0.05, mutate_compute_location}, {0.03, mutate_unroll}, {0.02, mutate_parallel}};

}  // namespace

bool draws_as_reference(const Trace& trace) {
  auto binds = [](const Instruction& instruction) { return instruction.kind->meaning.binds_axis; };
  if (std::ranges::any_of(trace.instructions(), binds)) return false;
  auto sets_mark = [](const Meaning& of) { return of.mark == Meaning::Mark::Set; };
  std::size_t shapes = samples_that_draw(trace, Meaning::Draws::Divisors).size() +
                       samples_that_draw(trace, Meaning::Draws::Place).size();
  return shapes > 0 && shapes + categorical_feeding(trace, sets_mark).size() == trace.sample_count();
}

bool mutate_as_reference(const Trace& trace, const JointPrior& prior, std::vector<Decision>& decisions, Rng& rng) {
  if (!draws_as_reference(trace)) return mutate(trace, prior, decisions, rng);
  double at = rng.uniform();
  const Weighed* chosen = std::ranges::find_if(kMutators, [&](const Weighed& each) { return (at -= each.weight) < 0; });
  if (chosen == std::end(kMutators)) --chosen;
  const std::vector<Decision> before = decisions;
  return chosen->mutate(trace, prior, decisions, rng) && prior.fit(decisions) && decisions != before;
}

}  // namespace tw
