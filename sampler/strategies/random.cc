// Draws from the prior, in turn of all sketches, in the order in which they come, scored by nothing: MetaSchedule's
// ReplayTrace and AutoTVM's RandomTuner, which are one thing here, since a draw of the prior is the replay of a sketch
// with open decisions. The baseline that every other strategy has to beat.
#include <algorithm>

#include "sampler/strategies/proposer.h"
#include "sampler/strategies/strategies.h"

namespace tw {
namespace {

class Random : public Strategy {
 public:
  const char* name() const override { return "random"; }

  std::vector<Candidate> propose(const Round& round) override {
    constexpr u64 kAttempts = 8;  // of a space that is nearly measured, most draws are repeats
    constexpr int kLeast = 64;
    Proposer proposer(round);
    for (u64 attempt = 0; attempt < kAttempts && !proposer.must_stop(); ++attempt) {
      proposer.offer(proposer.draws(std::max(kLeast, 2 * round.count), 1 + attempt));
      if (proposer.pool_size() >= round.count) break;
    }
    std::vector<Candidate> batch = proposer.take_pool();
    batch.resize(std::min<std::size_t>(batch.size(), round.count));
    return batch;
  }
};

}  // namespace

StrategyKind random_strategy() {
  return {.name = "random",
          .has_scores = false,
          .begins_with_draft = false,
          .settings = {},
          .make = [](const Settings&) -> std::unique_ptr<Strategy> { return std::make_unique<Random>(); }};
}

}  // namespace tw
