#include "sampler/strategies/metropolis.h"

#include <cmath>

#include "sampler/draw/mutator.h"
#include "sampler/strategies/strategies.h"

namespace tw {
namespace {

// Changes one decision and takes the ratio of the priors into account: a factor of the chance to accept may be asked
// for by itself, since a product of Metropolis chances keeps the balance, too. What is not built costs nothing.
bool change_one(const JointPrior& prior, std::vector<Decision>& decisions, Rng& rng) {
  if (decisions.empty()) return false;
  auto sample = static_cast<std::size_t>(rng.below(static_cast<i64>(decisions.size())));
  double before = prior.log_weight(decisions);
  if (!change_sample(prior, sample, decisions, rng)) return false;
  return rng.uniform() < std::exp(prior.log_weight(decisions) - before);
}

}  // namespace

std::vector<Candidate> Metropolis::propose(const Round& round) {
  constexpr u64 kFirstStep = 100;  // label
  Proposer proposer(round);
  chains_.begin_round(proposer, round, options_.chains);
  auto change = [&](Candidate& candidate, Rng& rng) {
    if (rng.uniform() < options_.draw_probability) return proposer.draw_any(candidate, rng);
    return change_one(*round.space.space.sketches[candidate.sketch].prior, candidate.decisions, rng);
  };
  auto chance = [&](const Candidate& now, const Candidate& proposed) {
    return std::exp((static_cast<double>(proposed.score) - now.score) / options_.temperature);
  };
  for (int step = 0; step < options_.steps && !proposer.must_stop(); ++step)
    chains_.step(proposer, round, kFirstStep + static_cast<u64>(step), change, chance);
  if (proposer.pool_size() == 0) chains_.begin_anew(proposer, round, options_.chains);
  return proposer.take_pool();
}

StrategyKind metropolis_strategy() {
  constexpr MetropolisOptions usual;
  return {
      .name = "metropolis",
      .has_scores = true,
      .uses_model = true,
      .begins_with_draft = false,
      .settings = {{"chains", usual.chains, 1, 65536, true},
                   {"steps", usual.steps, 1, 1000000, true},
                   {"temperature", usual.temperature, 0.001, 1e5, false},
                   {"draw_probability", usual.draw_probability, 0, 1, false},
                   {"batch", usual.batch, 1, 65536, true}},
      .make = [](const Settings& settings) -> std::unique_ptr<Strategy> {
        return std::make_unique<Metropolis>(MetropolisOptions{.chains = settings.whole("chains"),
                                                              .steps = settings.whole("steps"),
                                                              .batch = settings.whole("batch"),
                                                              .temperature = settings.number("temperature"),
                                                              .draw_probability = settings.number("draw_probability")});
      }};
}

}  // namespace tw
