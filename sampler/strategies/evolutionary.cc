#include "sampler/strategies/evolutionary.h"

#include <algorithm>
#include <cmath>

#include "sampler/strategies/learned_prior.h"
#include "sampler/strategies/proposer.h"
#include "sampler/strategies/strategies.h"

namespace tw {
namespace {

bool has_lower_draft(const Candidate& a, const Candidate& b) { return a.draft < b.draft; }

// Most are kept for their draft score; a quarter of the places goes to the others in order, so that what the draft
// model misjudges is seen by the learned one.
void keep_best_drafts(std::vector<Candidate>& candidates, int wanted) {
  if (static_cast<int>(candidates.size()) <= wanted) return;
  std::stable_sort(candidates.begin(), candidates.end(), has_lower_draft);
  int best = wanted * 3 / 4, rest = wanted - best;
  int step = std::max<int>(1, (static_cast<int>(candidates.size()) - best) / std::max(1, rest));
  std::vector<Candidate> kept(candidates.begin(), candidates.begin() + best);
  for (int i = best; i < static_cast<int>(candidates.size()) && static_cast<int>(kept.size()) < wanted; i += step)
    kept.push_back(candidates[i]);
  candidates = std::move(kept);
}

// Fresh candidates: a share of them from the learned prior, if there are good programs, the others from the rules'
// prior.
std::vector<Candidate> draw_some(Proposer& proposer, const Round& round, int count, double learned_share) {
  LearnedPrior learned(round.elites);
  return proposer.build_new(count, 1, [&](int item, Candidate& candidate, Rng& rng) {
    bool is_learned = !learned.is_empty() && rng.uniform() < learned_share;
    return is_learned ? learned.draw(round.space, candidate, rng) : proposer.draw_in_turn(item, candidate, rng);
  });
}

// One generation: children of parents drawn by score, more than wanted, the best drafts of which survive. Where traces
// are scored, these children are the best of four times as many.
std::vector<Candidate> breed(Proposer& proposer, const std::vector<Candidate>& parents, int wanted,
                             const EvolutionOptions& options, u64 label) {
  std::vector<double> cumulative = cumulative_weights(parents);
  int new_sketches = options.new_sketches;
  auto make = [&](int, Candidate& child, Rng& rng) {
    if (rng.uniform() > options.mutate_probability) return proposer.draw_any(child, rng);
    child = parents[drawn_by_weight(cumulative, rng)];
    return proposer.change(child, options.fork_probability, new_sketches, rng);
  };
  std::vector<Candidate> children = proposer.scores_traces() ? proposer.build_best(8 * wanted, 2 * wanted, label, make)
                                                             : proposer.build_new(2 * wanted, label, make);
  keep_best_drafts(children, wanted);
  return children;
}

}  // namespace

int population_for(int count, int population) {
  return static_cast<int>(std::clamp<i64>(i64{population} * count / kFullBatch, population / 4, population));
}

std::vector<double> cumulative_weights(const std::vector<Candidate>& parents) {
  double mean = 0, square = 0;
  for (const Candidate& parent : parents) mean += parent.score;
  mean /= static_cast<double>(parents.size());
  for (const Candidate& parent : parents) square += (parent.score - mean) * (parent.score - mean);
  double deviation = std::sqrt(square / static_cast<double>(parents.size())) + 1e-9;
  std::vector<double> cumulative;
  double total = 0;
  for (const Candidate& parent : parents)
    cumulative.push_back(total += std::exp(std::clamp((parent.score - mean) / deviation, -4.0, 4.0)));
  return cumulative;
}

std::size_t drawn_by_weight(const std::vector<double>& cumulative, Rng& rng) {
  double at = rng.uniform() * cumulative.back();
  std::size_t drawn = std::upper_bound(cumulative.begin(), cumulative.end(), at) - cumulative.begin();
  return std::min(drawn, cumulative.size() - 1);
}

std::vector<Candidate> Evolutionary::propose(const Round& round) {
  Proposer proposer(round);
  int wanted = population_for(round.count, options_.population);
  const int count = static_cast<int>(i64{options_.draws} * wanted / options_.population);
  std::vector<Candidate> population = draw_some(proposer, round, count, options_.learned_draws);
  keep_best_drafts(population, wanted);
  int kept = std::min<int>(static_cast<int>(round.elites.size()), static_cast<int>(wanted * options_.measured_ratio));
  population.insert(population.end(), round.elites.begin(), round.elites.begin() + kept);
  for (int generation = 0; !population.empty(); ++generation) {
    if (proposer.must_stop()) return {};
    proposer.score(population);
    proposer.offer(population);
    if (generation == options_.generations) break;
    population = breed(proposer, population, wanted, options_, 2 + static_cast<u64>(generation));
  }
  return proposer.take_pool();
}

std::vector<Candidate> best_drafts(const Round& round, const EvolutionOptions& options) {
  Proposer proposer(round);
  std::vector<Candidate> population = proposer.draws(options.draws, 1);
  for (int generation = 0; generation < options.generations && !population.empty() && !proposer.must_stop();
       ++generation) {
    proposer.score(population);
    std::vector<Candidate> children =
        breed(proposer, population, options.population, options, 2 + static_cast<u64>(generation));
    population.insert(population.end(), children.begin(), children.end());
    std::stable_sort(population.begin(), population.end(), has_lower_draft);
    population.resize(std::min<std::size_t>(population.size(), options.population));
  }
  return population;
}

StrategyKind evolutionary_strategy() {
  constexpr EvolutionOptions usual;
  return {.name = "evolutionary",
          .has_scores = true,
          .uses_model = true,
          .begins_with_draft = true,
          .settings = {{"population", usual.population, 4, 65536, true},
                       {"draws", usual.draws, 1, 1 << 20, true},
                       {"learned_draws", usual.learned_draws, 0, 1, false},
                       {"measured_ratio", usual.measured_ratio, 0, 1, false},
                       {"generations", usual.generations, 0, 1000, true},
                       {"mutate_probability", usual.mutate_probability, 0, 1, false},
                       {"fork_probability", usual.fork_probability, 0, 1, false}},
          .make = [](const Settings& settings) -> std::unique_ptr<Strategy> {
            return std::make_unique<Evolutionary>(
                EvolutionOptions{.population = settings.whole("population"),
                                 .draws = settings.whole("draws"),
                                 .learned_draws = settings.number("learned_draws"),
                                 .measured_ratio = settings.number("measured_ratio"),
                                 .generations = settings.whole("generations"),
                                 .mutate_probability = settings.number("mutate_probability"),
                                 .fork_probability = settings.number("fork_probability")});
          }};
}

}  // namespace tw
