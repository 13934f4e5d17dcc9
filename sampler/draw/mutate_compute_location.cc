// Another place for a block. Which places are legal is known at replay only, so the decision is opened and drawn there.
#include "sampler/draw/mutator.h"

namespace tw {

bool mutate_compute_location(const Trace& trace, const JointPrior&, std::vector<Decision>& decisions, Rng& rng) {
  std::vector<SampleSite> sites = samples_that_draw(trace, Meaning::Draws::Place);
  if (sites.empty()) return false;
  decisions[sites[rng.below(static_cast<i64>(sites.size()))].sample] = Decision{};
  return true;
}

}  // namespace tw
