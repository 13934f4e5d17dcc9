// Draws from the prior, in turn of all sketches, in the order in which they come, scored by nothing: MetaSchedule's
// ReplayTrace and AutoTVM's RandomTuner, which are one thing here, since a draw of the prior is the replay of a sketch
// with open decisions. The baseline that every other strategy has to beat.
#include "sampler/strategies/proposer.h"
#include "sampler/strategies/strategies.h"

namespace tw {
namespace {

class Random : public Strategy {
 public:
  const char* name() const override { return "random"; }

  std::vector<Candidate> propose(const Round& round) override {
    Proposer proposer(round);
    return proposer.random_batch();
  }
};

}  // namespace

StrategyKind random_strategy() {
  return {.name = "random",
          .has_scores = false,
          .uses_model = false,
          .begins_with_draft = false,
          .settings = {},
          .make = [](const Settings&) -> std::unique_ptr<Strategy> { return std::make_unique<Random>(); }};
}

}  // namespace tw
