// The default strategy: evolutionary search over traces (MetaSchedule, NeurIPS 2022; Ansor, OSDI 2020), with a draft
// model in front of the learned one (Pruner, ASPLOS 2025): many candidates are replayed and draft-scored, the survivors
// are scored by the model, the best go on.
#pragma once
#include <optional>

#include "sampler/strategies/strategy.h"

namespace tw {

struct EvolutionOptions {
  int population = 512;         // for a batch of kFullBatch; a smaller one is searched with a smaller population
  int draws = 1024;             // fresh draws per round, of which the best drafts are kept; smaller likewise
  double learned_draws = 0.5;   // share of them that goes by the decisions of good programs (learned_prior.h)
  double measured_ratio = 0.2;  // share of the population that measured candidates may take
  int generations = 4;
  double mutate_probability = 0.85;
  double fork_probability = 0.1;  // of mutations: another way at a fork, all other decisions kept
  int new_sketches = 16;          // that forks may add to a space in a generation
};

inline constexpr int kFullBatch = 32;
// What of a population a batch of `count` is searched with: at least a quarter.
int population_for(int count, int population);

class Evolutionary : public Strategy {
 public:
  explicit Evolutionary(const EvolutionOptions& options) : options_(options) {}
  const char* name() const override { return "evolutionary"; }
  std::vector<Candidate> propose(const Round& round) override;

 private:
  EvolutionOptions options_;
};

// The best of many draws and their children by the draft model alone, fastest first; empty if no draw is valid. The
// round has no model.
std::vector<Candidate> best_drafts(const Round& round, const EvolutionOptions& options);

// A generation's parents are drawn with these weights, given as sums from the first one on: exponential in the score,
// which is measured in standard deviations.
std::vector<double> cumulative_weights(const std::vector<Candidate>& parents);
std::size_t drawn_by_weight(const std::vector<double>& cumulative, Rng& rng);

}  // namespace tw
