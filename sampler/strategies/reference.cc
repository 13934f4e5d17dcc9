// MetaSchedule's evolutionary search with its own configuration (NeurIPS 2022; EvolutionarySearch of TVM): no draft
// model in front, no forks, its own choice of the batch. The population is a fifth of measured candidates and draws,
// four generations are bred, parents by score, and the best by score are measured with five in a hundred of the draws.
// Scores are random until 100 programs are measured, as many as its cost model waits for; batches are of 64. A child
// that is rejected is tried again, ten times, and at last a parent stays. Mutators have its
// probabilities (reference_mutators.h). What is not its own: parents have weights exponential in the score, since
// scores here may be negative.
#include <algorithm>

#include "sampler/strategies/evolutionary.h"
#include "sampler/strategies/proposer.h"
#include "sampler/strategies/reference_mutators.h"
#include "sampler/strategies/strategies.h"

namespace tw {
namespace {

struct ReferenceOptions {
  int population, min_unmeasured, generations, retries, batch, warmup;
  double measured_ratio, mutate_probability, epsilon;
};

class Reference : public Strategy {
 public:
  explicit Reference(const ReferenceOptions& options) : options_(options) {}
  const char* name() const override { return "reference"; }
  int batch() const override { return options_.batch; }

  std::vector<Candidate> propose(const Round& round) override {
    Proposer proposer(round);
    auto measured = std::min<std::size_t>(round.elites.size(),
                                          static_cast<std::size_t>(options_.population * options_.measured_ratio));
    std::vector<Candidate> drawn = draw(proposer, options_.population - static_cast<int>(measured));
    if (proposer.must_stop()) return {};
    std::vector<Candidate> population = drawn;
    population.insert(population.end(), round.elites.begin(),
                      round.elites.begin() + static_cast<std::ptrdiff_t>(measured));
    for (int generation = 0; !population.empty(); ++generation) {
      score(proposer, round, population, static_cast<u64>(generation));
      proposer.offer(population);
      if (generation == options_.generations) break;
      population = breed(proposer, round, population, kFirstChild + 100 * static_cast<u64>(generation));
      if (proposer.must_stop()) return {};
    }
    return pick(proposer.take_pool(), std::move(drawn), round);
  }

 private:
  // Few valid draws are tried for again.
  std::vector<Candidate> draw(Proposer& proposer, int wanted) const {
    std::vector<Candidate> out = proposer.draws(wanted, 1);
    for (u64 attempt = 2; static_cast<int>(out.size()) < options_.min_unmeasured && attempt < 7; ++attempt) {
      for (Candidate& candidate : proposer.draws(wanted, attempt)) out.push_back(std::move(candidate));
    }
    out.resize(std::min<std::size_t>(out.size(), wanted));
    return out;
  }

  void score(Proposer& proposer, const Round& round, std::vector<Candidate>& population, u64 generation) const {
    if (round.model && static_cast<int>(round.times.size()) >= options_.warmup) return proposer.score(population);
    Rng rng = round.rng.fork(0x77617200 + generation);
    for (Candidate& candidate : population) candidate.score = static_cast<float>(rng.uniform());
  }

  // Changes decisions; the sketch stays. False if nothing came of it.
  static bool change(const Round& round, Candidate& child, Rng& rng) {
    const Sketch& sketch = round.space.space.sketches[static_cast<std::size_t>(child.sketch)];
    return mutate_as_reference(sketch.trace, *sketch.prior, child.decisions, rng);
  }

  // As many as there were. A parent stays unchanged once at most; where nothing came of all tries one is taken as it
  // is.
  std::vector<Candidate> breed(Proposer& proposer, const Round& round, const std::vector<Candidate>& population,
                               u64 label) const {
    std::vector<double> cumulative = cumulative_weights(population);
    std::vector<bool> is_kept(population.size());
    std::vector<Candidate> children;
    for (int attempt = 0; attempt <= options_.retries && !proposer.must_stop(); ++attempt) {
      int missing = options_.population - static_cast<int>(children.size());
      auto make = [&](int, Candidate& child, Rng& rng) {
        std::size_t parent = drawn_by_weight(cumulative, rng);
        child = population[parent];
        if (rng.uniform() < options_.mutate_probability) return change(round, child, rng);
        bool is_first = !is_kept[parent];
        is_kept[parent] = true;
        return is_first;
      };
      for (std::optional<Candidate>& child : proposer.build_each(missing, label + static_cast<u64>(attempt), make)) {
        if (child) children.push_back(std::move(*child));
      }
    }
    Rng rng = round.rng.fork(mix64(label));
    while (static_cast<int>(children.size()) < options_.population)
      children.push_back(population[drawn_by_weight(cumulative, rng)]);
    return children;
  }

  // The best, and at the end some of the draws.
  std::vector<Candidate> pick(std::vector<Candidate> pool, const std::vector<Candidate>& drawn,
                              const Round& round) const {
    std::stable_sort(pool.begin(), pool.end(), has_higher_score);
    auto count = static_cast<std::size_t>(round.count),
         random = static_cast<std::size_t>(round.count * options_.epsilon);
    std::size_t best = std::min(pool.size(), count - random);
    std::vector<Candidate> batch(pool.begin(), pool.begin() + static_cast<std::ptrdiff_t>(best));
    HashSet picked;
    for (const Candidate& candidate : batch) picked.insert(candidate.program);
    auto take = [&](const Candidate& candidate) {
      if (batch.size() < count && !round.measured.count(candidate.program) && picked.insert(candidate.program).second)
        batch.push_back(candidate);
    };
    std::vector<Candidate> shuffled = drawn;
    Rng rng = round.rng.fork(0x65707369);
    for (std::size_t i = shuffled.size(); i > 1; --i)
      std::swap(shuffled[i - 1], shuffled[static_cast<std::size_t>(rng.below(static_cast<i64>(i)))]);
    for (const Candidate& candidate : shuffled) take(candidate);
    for (const Candidate& candidate : pool) take(candidate);
    return batch;
  }

  static constexpr u64 kFirstChild = 100;  // label

  ReferenceOptions options_;
};

}  // namespace

StrategyKind reference_strategy() {
  return {
      .name = "reference",
      .has_scores = false,
      .uses_model = true,
      .begins_with_draft = false,
      .settings = {{"population", 512, 4, 65536, true},
                   {"measured_ratio", 0.2, 0, 1, false},
                   {"min_unmeasured", 50, 0, 65536, true},
                   {"generations", 4, 0, 1000, true},
                   {"mutate_probability", 0.85, 0, 1, false},
                   {"retries", 10, 0, 1000, true},
                   {"epsilon", 0.05, 0, 1, false},
                   {"batch", 64, 1, 65536, true},
                   {"warmup", 100, 0, 1000000, true}},
      .make = [](const Settings& settings) -> std::unique_ptr<Strategy> {
        return std::make_unique<Reference>(ReferenceOptions{.population = settings.whole("population"),
                                                            .min_unmeasured = settings.whole("min_unmeasured"),
                                                            .generations = settings.whole("generations"),
                                                            .retries = settings.whole("retries"),
                                                            .batch = settings.whole("batch"),
                                                            .warmup = settings.whole("warmup"),
                                                            .measured_ratio = settings.number("measured_ratio"),
                                                            .mutate_probability = settings.number("mutate_probability"),
                                                            .epsilon = settings.number("epsilon")});
      }};
}

}  // namespace tw
