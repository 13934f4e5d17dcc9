// Another number of parallel chunks: the outermost tile of a loop trades a factor of two with its neighbour.
#include <algorithm>

#include "sampler/draw/mutator.h"

namespace tw {

bool mutate_parallel(const Trace& trace, const JointPrior&, std::vector<Decision>& decisions, Rng& rng) {
  bool is_parallel = std::any_of(trace.instructions().begin(), trace.instructions().end(),
                                 [](const Instruction& i) { return i.kind->meaning.is_parallel; });
  std::vector<SampleSite> sites = samples_that_draw(trace, Meaning::Draws::Factors);
  if (!is_parallel || sites.empty()) return false;
  Decision& tile = decisions[sites[rng.below(static_cast<i64>(sites.size()))].sample];
  if (tile.count < 2) return false;
  i64 old = tile.values[1];
  tile.values[1] = rng.below(2) == 0 ? old * 2 : std::max<i64>(1, old / 2);
  return tile.values[1] != old;
}

}  // namespace tw
