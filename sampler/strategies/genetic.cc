// AutoTVM's GATuner: a genetic algorithm whose fitness is the measured speed, without any model. A generation of 100 is
// measured before the next one is bred, of it and of the three best so far. Two parents, drawn by fitness, give a child
// the first decisions of one and the last of the other; then each decision gets another value with probability 0.1. It
// has one genome for all candidates; here parents of different sketches have no decisions in common, and the child is
// one parent's. What failed, or is still being measured, has no fitness. A run that is continued goes on with its best.
#include <algorithm>
#include <cmath>

#include "sampler/draw/mutator.h"
#include "sampler/strategies/evolutionary.h"
#include "sampler/strategies/proposer.h"
#include "sampler/strategies/strategies.h"

namespace tw {
namespace {

struct GeneticOptions {
  int population, elites;
  double mutate_probability;
};

class Genetic : public Strategy {
 public:
  explicit Genetic(const GeneticOptions& options) : options_(options) {}
  const char* name() const override { return "genetic"; }

  std::vector<Candidate> propose(const Round& round) override {
    Proposer proposer(round);
    for (bool has_bred = false;; has_bred = true) {
      std::vector<Candidate> batch;
      for (; given_ < genes_.size() && std::ssize(batch) < round.count; ++given_) {
        if (!round.measured.count(genes_[given_].program)) batch.push_back(genes_[given_]);
      }
      if (!batch.empty() || has_bred || proposer.must_stop()) return batch;
      genes_ = next_generation(proposer, round);
      given_ = 0;
    }
  }

 private:
  std::vector<Candidate> next_generation(Proposer& proposer, const Round& round) const {
    std::vector<Candidate> parents = parents_of(round);
    if (parents.size() < 2) return drawn(proposer);
    std::vector<double> fitness = fitness_of(parents, round.times);
    constexpr u64 kAttempts = 8;  // in a small space most children were there before
    for (u64 attempt = 0; attempt < kAttempts && proposer.pool_size() < options_.population && !proposer.must_stop();
         ++attempt) {
      proposer.offer(proposer.build_new(options_.population, 1 + attempt, [&](int, Candidate& child, Rng& rng) {
        return breed(round.space, parents, fitness, child, rng);
      }));
    }
    std::vector<Candidate> children = proposer.take_pool();
    children.resize(std::min<std::size_t>(children.size(), options_.population));
    return children.empty() ? drawn(proposer) : children;
  }

  // The generation that was measured, and the best so far.
  std::vector<Candidate> parents_of(const Round& round) const {
    std::size_t best = genes_.empty() ? options_.population : options_.elites;
    std::vector<Candidate> parents;
    HashSet met;
    auto add = [&](const Candidate& candidate) {
      auto time = round.times.find(candidate.program);
      if (time != round.times.end() && std::isfinite(time->second) && met.insert(candidate.program).second)
        parents.push_back(candidate);
    };
    for (const Candidate& candidate : round.elites.first(std::min(best, round.elites.size()))) add(candidate);
    for (const Candidate& candidate : genes_) add(candidate);
    return parents;
  }

  // As sums from the first parent on.
  static std::vector<double> fitness_of(const std::vector<Candidate>& parents, const MeasuredTimes& times) {
    std::vector<double> cumulative;
    double total = 0;
    for (const Candidate& parent : parents) cumulative.push_back(total += 1 / times.at(parent.program));
    return cumulative;
  }

  // Unequal parents, unless one has all the fitness.
  static Candidate crossed(const CandidateSpace& space, const std::vector<Candidate>& parents,
                           const std::vector<double>& fitness, Rng& rng) {
    std::size_t first = drawn_by_weight(fitness, rng), second = drawn_by_weight(fitness, rng);
    for (int tries = 0; tries < 16 && second == first; ++tries) second = drawn_by_weight(fitness, rng);
    Candidate child = parents[first];
    const Candidate& other = parents[second];
    if (other.sketch != child.sketch || child.decisions.empty()) return child;
    std::vector<Decision> mixed = child.decisions;
    i64 point = rng.below(static_cast<i64>(mixed.size()));
    std::copy(other.decisions.begin() + point, other.decisions.end(), mixed.begin() + point);
    // What a `require` forbids is no child.
    if (space.space.sketches[child.sketch].prior->fit(mixed)) child.decisions = std::move(mixed);
    return child;
  }

  bool breed(const CandidateSpace& space, const std::vector<Candidate>& parents, const std::vector<double>& fitness,
             Candidate& child, Rng& rng) const {
    child = crossed(space, parents, fitness, rng);
    const JointPrior& prior = *space.space.sketches[child.sketch].prior;
    for (std::size_t sample = 0; sample < child.decisions.size(); ++sample) {
      if (rng.uniform() < options_.mutate_probability) change_sample(prior, sample, child.decisions, rng);
    }
    return prior.fit(child.decisions);
  }

  std::vector<Candidate> drawn(Proposer& proposer) const {
    constexpr u64 kAttempts = 4, kFirstDraw = 100;
    for (u64 attempt = 0; attempt < kAttempts && proposer.pool_size() < options_.population; ++attempt)
      proposer.offer(proposer.draws(options_.population, kFirstDraw + attempt));
    std::vector<Candidate> genes = proposer.take_pool();
    genes.resize(std::min<std::size_t>(genes.size(), options_.population));
    return genes;
  }

  GeneticOptions options_;
  std::vector<Candidate> genes_;  // the generation
  std::size_t given_ = 0;         // of these, proposed
};

}  // namespace

StrategyKind genetic_strategy() {
  return {
      .name = "genetic",
      .has_scores = false,
      .uses_model = false,
      .begins_with_draft = false,
      .settings = {{"population", 100, 2, 65536, true},
                   {"elites", 3, 0, 65536, true, /*at_most=*/"population"},
                   {"mutate_probability", 0.1, 0, 1, false}},
      .make = [](const Settings& settings) -> std::unique_ptr<Strategy> {
        return std::make_unique<Genetic>(GeneticOptions{.population = settings.whole("population"),
                                                        .elites = settings.whole("elites"),
                                                        .mutate_probability = settings.number("mutate_probability")});
      }};
}

}  // namespace tw
