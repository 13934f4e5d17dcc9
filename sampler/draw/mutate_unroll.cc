// Another value of a categorical sample that says how far to unroll: one that is an annotation, or a factor of a split
// whose inner loop is unrolled.
#include "sampler/draw/mutator.h"

namespace tw {

bool mutate_unroll(const Trace& trace, const JointPrior& prior, std::vector<Decision>& decisions, Rng& rng) {
  auto sets_mark = [](const Meaning& of) { return of.mark == Meaning::Mark::Set; };
  auto splits = [](const Meaning& of) { return of.extents == Meaning::Extents::Split; };
  std::vector<SampleSite> sites = categorical_feeding(trace, sets_mark);
  for (const SampleSite& site : categorical_feeding(trace, splits)) sites.push_back(site);
  if (sites.empty()) return false;
  return prior.redraw(sites[rng.below(static_cast<i64>(sites.size()))].sample, decisions, rng);
}

}  // namespace tw
