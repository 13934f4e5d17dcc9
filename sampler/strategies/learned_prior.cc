#include "sampler/strategies/learned_prior.h"

#include <algorithm>

#include "sampler/space/other_sketches.h"

namespace tw {

LearnedPrior::LearnedPrior(std::span<const Candidate> good) : good_(good.first(std::min(good.size(), kMost))) {
  for (std::size_t i = 0; i < good_.size(); ++i) {
    all_.push_back(i);
    of_sketch_[good_[i].sketch].push_back(i);
  }
}

// The weight of one is the reciprocal of its rank.
const Candidate& LearnedPrior::drawn(const std::vector<std::size_t>& among, Rng& rng) const {
  auto weight = [](std::size_t rank) { return 1.0 / static_cast<double>(rank + 1); };
  double left = 0;
  for (std::size_t rank : among) left += weight(rank);
  left *= rng.uniform();
  for (std::size_t rank : among) {
    if ((left -= weight(rank)) < 0) return good_[rank];
  }
  return good_[among.back()];
}

bool LearnedPrior::draw(const CandidateSpace& space, Candidate& candidate, Rng& rng) const {
  if (is_empty()) return false;
  candidate.sketch = drawn(all_, rng).sketch;
  const Sketch& sketch = space.space.sketches[static_cast<std::size_t>(candidate.sketch)];
  candidate.decisions.assign(sketch.trace.sample_count(), {});
  if (!sketch.prior->draw(candidate.decisions, rng)) return false;
  const std::vector<std::size_t>& alike = of_sketch_.at(candidate.sketch);
  std::vector<Decision> wanted = candidate.decisions;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (rng.below(2) == 0) wanted[i] = drawn(alike, rng).decisions[i];
  }
  take_valid(*sketch.prior, wanted, candidate.decisions);
  return true;
}

}  // namespace tw
