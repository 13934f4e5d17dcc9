// Metropolis-Hastings chains (Metropolis 1953, Hastings 1970) whose target is the posterior prior(trace) *
// exp(score / temperature), which is what MetaSchedule (NeurIPS 2022) says it searches: after many steps a chain visits
// a trace as often as the target says. Each step is one of two moves.
// - A fresh draw of any sketch, each with equal chances. It comes from the prior, so the scores alone decide.
// - One decision, each with equal chances. A categorical one gets another value and goes back as likely as it came, so
//   the priors count as well. Any other is drawn anew from its prior where it is replayed, so the scores alone decide.
// Exact: all of this, where no sample depends on another one's decision. Approximate: where others have to follow, by
// adapting replay or since a `require` ties them, the way back may be more or less likely than the way there. Sketches
// that are not built yet are never visited. Not of the posterior are the places of chains that begin anew: they do so
// in a round that met nothing that is not measured.
#pragma once
#include "sampler/strategies/chains.h"

namespace tw {

struct MetropolisOptions {
  int chains = 128, steps = 100, batch = 64;
  double temperature = 0.1;       // in units of scores
  double draw_probability = 0.1;  // of a fresh draw
};

class Metropolis : public Strategy {
 public:
  explicit Metropolis(const MetropolisOptions& options) : options_(options) {}
  const char* name() const override { return "metropolis"; }
  int batch() const override { return options_.batch; }
  std::vector<Candidate> propose(const Round& round) override;
  const Chains& chains() const { return chains_; }

 private:
  MetropolisOptions options_;
  Chains chains_;
};

}  // namespace tw
