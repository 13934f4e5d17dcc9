// Two loops of a drawn order change places.
#include <utility>

#include "sampler/draw/mutator.h"

namespace tw {

bool mutate_permutation(const Trace& trace, const JointPrior&, std::vector<Decision>& decisions, Rng& rng) {
  std::vector<SampleSite> sites = samples_that_draw(trace, Meaning::Draws::Order);
  if (sites.empty()) return false;
  Decision& order = decisions[sites[static_cast<std::size_t>(rng.below(static_cast<i64>(sites.size())))].sample];
  if (order.count < 2) return false;
  i64 a = rng.below(order.count), b = rng.below(order.count - 1);
  std::swap(order.values[a], order.values[b < a ? b : b + 1]);
  return true;
}

}  // namespace tw
