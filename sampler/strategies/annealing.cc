// Simulated annealing on the model, as AutoTVM's (NeurIPS 2018): 128 chains of 500 steps, the temperature falls from 1
// to 0, and the chains go on where they stood when the next round begins. Neighbours are what mutators make, and
// another way at a fork. The energy is the model's score, that of the draft model until there is one; with
// `random_first` the batches until then are random, as AutoTVM's first 64. It ends after 50 steps in which none of the
// best `count` candidates was new; where nothing at all was, the chains begin anew at draws.
#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "sampler/strategies/chains.h"
#include "sampler/strategies/strategies.h"

namespace tw {
namespace {

struct AnnealingOptions {
  int chains, steps, early_stop, batch;
  bool random_first;
  double temperature, fork_probability;
};

// The best scores so far of programs that are not measured yet: as many as a batch has places.
class BestScores {
 public:
  explicit BestScores(int places) : places_(static_cast<std::size_t>(places)) {}
  // True if one of them has its place among the best.
  bool add(const std::vector<Candidate>& candidates, const HashSet& measured) {
    bool is_better = false;
    for (const Candidate& candidate : candidates) {
      bool is_wanted = scores_.size() < places_ || candidate.score > scores_.top();
      if (!is_wanted || measured.count(candidate.program) || !met_.insert(candidate.program).second) continue;
      scores_.push(candidate.score);
      if (scores_.size() > places_) scores_.pop();
      is_better = true;
    }
    return is_better;
  }

 private:
  std::size_t places_;
  std::priority_queue<float, std::vector<float>, std::greater<>> scores_;
  HashSet met_;
};

class Annealing : public Strategy {
 public:
  explicit Annealing(const AnnealingOptions& options) : options_(options) {}
  const char* name() const override { return "annealing"; }
  int batch() const override { return options_.batch; }

  std::vector<Candidate> propose(const Round& round) override {
    Proposer proposer(round);
    if (options_.random_first && !round.model) return proposer.random_batch();
    chains_.begin_round(proposer, round, options_.chains);
    BestScores best(round.count);
    best.add(chains_.candidates(), round.measured);
    int new_sketches = kNewSketches;
    auto change = [&](Candidate& candidate, Rng& rng) {
      return proposer.change(candidate, options_.fork_probability, new_sketches, rng);
    };
    for (int step = 0, idle = 0; step < options_.steps && idle < options_.early_stop && !proposer.must_stop(); ++step) {
      double temperature = options_.temperature * (1 - static_cast<double>(step) / options_.steps);
      std::vector<Candidate> proposed =
          chains_.step(proposer, round, kFirstStep + static_cast<u64>(step), change,
                       [&](const Candidate& now, const Candidate& next) {
                         return std::exp((static_cast<double>(next.score) - now.score) / (temperature + 1e-5));
                       });
      idle = best.add(proposed, round.measured) ? 0 : idle + 1;
    }
    if (proposer.pool_size() == 0) chains_.begin_anew(proposer, round, options_.chains);
    return proposer.take_pool();
  }

 private:
  static constexpr int kNewSketches = 16;  // a round
  static constexpr u64 kFirstStep = 100;   // label

  AnnealingOptions options_;
  Chains chains_;
};

}  // namespace

StrategyKind annealing_strategy() {
  return {
      .name = "annealing",
      .has_scores = true,
      .uses_model = true,
      .begins_with_draft = false,
      .settings = {{"chains", 128, 1, 65536, true},
                   {"steps", 500, 1, 1000000, true},
                   {"temperature", 1, 0, 1e5, false},
                   {"early_stop", 50, 1, 1000000, true},
                   {"fork_probability", 0.1, 0, 1, false},
                   {"batch", 64, 1, 65536, true},
                   {"random_first", 0, 0, 1, true}},
      .make = [](const Settings& settings) -> std::unique_ptr<Strategy> {
        return std::make_unique<Annealing>(AnnealingOptions{.chains = settings.whole("chains"),
                                                            .steps = settings.whole("steps"),
                                                            .early_stop = settings.whole("early_stop"),
                                                            .batch = settings.whole("batch"),
                                                            .random_first = settings.whole("random_first") == 1,
                                                            .temperature = settings.number("temperature"),
                                                            .fork_probability = settings.number("fork_probability")});
      }};
}

}  // namespace tw
