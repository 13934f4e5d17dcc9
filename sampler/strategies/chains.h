// Chains of candidates that go on from round to round: each step proposes a change of every chain's candidate and
// accepts it or not. Used by annealing and metropolis.
#pragma once
#include "sampler/strategies/proposer.h"

namespace tw {

class Chains {
 public:
  // In the first round of a run half of the chains begin at measured candidates, as far as there are some, the others
  // at draws: so a run that is continued goes on where it knows something. In later rounds their candidates are scored
  // again, since the model has learned meanwhile.
  void begin_round(Proposer& proposer, const Round& round, int count);

  // For chains that have met nothing in this round that is not measured: they begin anew at draws, as long as draws
  // give something that is not.
  void begin_anew(Proposer& proposer, const Round& round, int count);

  // Changes a candidate; false = the chain stays.
  using Change = std::function<bool(Candidate& candidate, Rng& rng)>;
  // The chance to go on to a proposed candidate.
  using Chance = std::function<double(const Candidate& now, const Candidate& proposed)>;
  // One step of every chain; returns what was proposed, with scores. A proposed candidate that is rejected is outside
  // of the space: the chain stays.
  std::vector<Candidate> step(Proposer& proposer, const Round& round, u64 label, const Change& change,
                              const Chance& chance);

  const std::vector<Candidate>& candidates() const { return candidates_; }

 private:
  void score(Proposer& proposer, std::vector<Candidate>& candidates);

  std::vector<Candidate> candidates_;
  std::unordered_map<Hash128, float, HashOfHash> scores_;  // of this round: chains meet many programs again
};

}  // namespace tw
