// Another value of a categorical sample; what is tied to it by `require` changes as little as it must.
#include "sampler/draw/mutator.h"

namespace tw {

bool mutate_categorical(const Trace& trace, const JointPrior& prior, std::vector<Decision>& decisions, Rng& rng) {
  std::vector<SampleSite> sites = samples_that_draw(trace, Meaning::Draws::OneOf);
  if (sites.empty()) return false;
  const SampleSite& site = sites[rng.below(static_cast<i64>(sites.size()))];
  return prior.redraw(site.sample, decisions, rng);
}

}  // namespace tw
