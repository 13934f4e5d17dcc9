#include "sampler/strategies/selection.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "sampler/strategies/proposer.h"

namespace tw {
namespace {

void sort_by_score(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(), has_higher_score);
}

// Chooses the first `places` of a pool that is sorted by score: of a sketch that no elite is of at most `share`, as
// long as there are others.
void share_places(std::vector<Candidate>& pool, std::span<const Candidate> elites, int places, int share) {
  std::map<int, int> left;  // of the places, for each sketch
  for (const Candidate& candidate : pool) left.emplace(candidate.sketch, share);
  for (const Candidate& candidate : elites) left[candidate.sketch] = places;
  std::vector<Candidate> first, rest;
  for (Candidate& candidate : pool) (left[candidate.sketch]-- > 0 ? first : rest).push_back(std::move(candidate));
  std::move(rest.begin(), rest.end(), std::back_inserter(first));
  pool = std::move(first);
  auto end = pool.begin() + std::min<std::ptrdiff_t>(places, static_cast<std::ptrdiff_t>(pool.size()));
  std::stable_sort(pool.begin(), end, has_higher_score);
}

// Scores with mean 0 and deviation 1, so that alpha means the same with every model.
std::vector<double> standard_scores(const std::vector<Candidate>& candidates) {
  double sum = 0, square = 0, count = static_cast<double>(candidates.size());
  for (const Candidate& candidate : candidates) sum += candidate.score;
  for (const Candidate& candidate : candidates) square += std::pow(candidate.score - sum / count, 2);
  double deviation = std::sqrt(square / count) + 1e-9;
  std::vector<double> scores;
  for (const Candidate& candidate : candidates) scores.push_back((candidate.score - sum / count) / deviation);
  return scores;
}

// Values of decisions that chosen candidates have.
class Covered {
 public:
  // The part of a candidate's decisions that is new; of a sketch without decisions, whether the sketch is.
  double new_part(const Candidate& candidate) const {
    std::size_t samples = candidate.decisions.size(), fresh = 0;
    if (samples == 0) return values_.contains(key_of(candidate, 0)) ? 0 : 1;
    for (std::size_t sample = 0; sample < samples; ++sample) fresh += !values_.contains(key_of(candidate, sample));
    return static_cast<double>(fresh) / static_cast<double>(samples);
  }
  void add(const Candidate& candidate) {
    for (std::size_t sample = 0; sample < std::max<std::size_t>(1, candidate.decisions.size()); ++sample)
      values_.insert(key_of(candidate, sample));
  }

 private:
  using Key = std::tuple<int, std::size_t, std::vector<i64>>;
  static Key key_of(const Candidate& candidate, std::size_t sample) {
    std::vector<i64> values;
    if (sample < candidate.decisions.size()) {
      const Decision& decision = candidate.decisions[sample];
      values.assign(decision.values, decision.values + decision.count);
    }
    return {candidate.sketch, sample, std::move(values)};
  }
  std::set<Key> values_;
};

// Moves a diverse choice of the first `among` to the front.
void put_diverse_first(std::vector<Candidate>& pool, std::size_t among, std::size_t count, double alpha) {
  std::vector<Candidate> front(pool.begin(), pool.begin() + static_cast<std::ptrdiff_t>(among)), ordered;
  std::vector<bool> is_chosen(among);
  for (std::size_t chosen : diverse_order(front, count, alpha)) {
    ordered.push_back(front[chosen]);
    is_chosen[chosen] = true;
  }
  for (std::size_t i = 0; i < among; ++i) {
    if (!is_chosen[i]) ordered.push_back(front[i]);
  }
  std::move(ordered.begin(), ordered.end(), pool.begin());
}

}  // namespace

std::vector<std::size_t> diverse_order(const std::vector<Candidate>& candidates, std::size_t count, double alpha) {
  std::vector<double> scores = standard_scores(candidates);
  std::vector<bool> is_chosen(candidates.size());
  std::vector<std::size_t> order;
  Covered covered;
  while (order.size() < std::min(count, candidates.size())) {
    std::size_t best = candidates.size();
    double most = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (is_chosen[i]) continue;
      double gain = scores[i] + alpha * covered.new_part(candidates[i]);
      if (best == candidates.size() || gain > most) best = i, most = gain;
    }
    is_chosen[best] = true;
    covered.add(candidates[best]);
    order.push_back(best);
  }
  return order;
}

std::vector<Candidate> select_batch(std::vector<Candidate> pool, const Round& round, const SelectionOptions& options) {
  sort_by_score(pool);
  int random = static_cast<int>(round.count * options.epsilon + 0.5), best = round.count - random;
  int front = options.is_diverse ? static_cast<int>(std::ceil(best * options.lambda)) : best;
  share_places(pool, round.elites, front, std::max(1, static_cast<int>(front * options.unproven_share)));
  if (options.is_diverse) put_diverse_first(pool, std::min<std::size_t>(pool.size(), front), best, options.alpha);
  std::vector<Candidate> batch(pool.begin(), pool.begin() + std::min<std::ptrdiff_t>(std::ssize(pool), best));
  Rng picks = round.rng.fork(0x65707369);
  for (std::size_t i = batch.size(); i < pool.size() && static_cast<int>(batch.size()) < round.count; ++i) {
    std::size_t other = i + static_cast<std::size_t>(picks.below(static_cast<i64>(pool.size() - i)));
    std::swap(pool[i], pool[other]);
    batch.push_back(pool[i]);
  }
  return batch;
}

const std::vector<SelectionKind>& selections() {
  constexpr SelectionOptions usual;
  static const Setting epsilon{"epsilon", usual.epsilon, 0, 1, false},
      share{"unproven_share", usual.unproven_share, 0, 1, false}, lambda{"lambda", usual.lambda, 1, 64, false},
      alpha{"alpha", usual.alpha, 0, 1000, false};
  static const std::vector<SelectionKind> table = {{"greedy", false, {epsilon, share}},
                                                   {"diverse", true, {epsilon, share, lambda, alpha}}};
  return table;
}

SelectionOptions selection_options(const SelectionKind& kind, const Settings& settings) {
  SelectionOptions options{.is_diverse = kind.is_diverse,
                           .epsilon = settings.number("epsilon"),
                           .unproven_share = settings.number("unproven_share")};
  if (kind.is_diverse) options.lambda = settings.number("lambda"), options.alpha = settings.number("alpha");
  return options;
}

}  // namespace tw
