#include "sampler/strategies/selection.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "sampler/strategies/evolutionary.h"
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

// The values of decisions, as numbers that count from 0.
class DecisionValues {
 public:
  // Of a candidate; a sketch without decisions counts as one.
  std::vector<std::size_t> of(const Candidate& candidate) {
    std::vector<std::size_t> numbers;
    for (std::size_t sample = 0; sample < std::max<std::size_t>(1, candidate.decisions.size()); ++sample) {
      std::vector<i64> key = {candidate.sketch, static_cast<i64>(sample)};
      if (sample < candidate.decisions.size()) {
        const Decision& decision = candidate.decisions[sample];
        key.insert(key.end(), decision.values, decision.values + decision.count);
      }
      numbers.push_back(numbers_.emplace(std::move(key), numbers_.size()).first->second);
    }
    return numbers;
  }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::map<std::vector<i64>, std::size_t> numbers_;
};

// Which values chosen candidates have.
class Covered {
 public:
  explicit Covered(std::size_t values) : is_covered_(values) {}
  // The part of a candidate's values that is new.
  double new_part(const std::vector<std::size_t>& values) const {
    auto fresh = std::ranges::count_if(values, [&](std::size_t value) { return !is_covered_[value]; });
    return static_cast<double>(fresh) / static_cast<double>(values.size());
  }
  void add(const std::vector<std::size_t>& values) {
    for (std::size_t value : values) is_covered_[value] = true;
  }

 private:
  std::vector<bool> is_covered_;
};

// How far candidates lie from the nearest one that was chosen: the part of their values that differ from its own.
class Distances {
 public:
  explicit Distances(std::size_t candidates) : nearest_(candidates, 1) {}
  double of(std::size_t candidate) const { return nearest_[candidate]; }
  void add(const std::vector<std::size_t>& chosen, const std::vector<std::vector<std::size_t>>& candidates) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      // Values of another sketch are other numbers, and a sketch has always as many.
      const std::size_t count = std::min(candidates[i].size(), chosen.size());
      std::size_t differ = candidates[i].size();
      for (std::size_t k = 0; k < count; ++k) differ -= chosen[k] == candidates[i][k];
      nearest_[i] = std::min(nearest_[i], static_cast<double>(differ) / static_cast<double>(candidates[i].size()));
    }
  }

 private:
  std::vector<double> nearest_;
};

// Moves a diverse choice of the first `among` to the front.
void put_diverse_first(std::vector<Candidate>& pool, std::size_t among, std::size_t count, const Diversity& wanted) {
  std::vector<Candidate> front(pool.begin(), pool.begin() + static_cast<std::ptrdiff_t>(among)), ordered;
  std::vector<bool> is_chosen(among);
  for (std::size_t chosen : diverse_order(front, count, wanted)) {
    ordered.push_back(front[chosen]);
    is_chosen[chosen] = true;
  }
  for (std::size_t i = 0; i < among; ++i) {
    if (!is_chosen[i]) ordered.push_back(front[i]);
  }
  std::move(ordered.begin(), ordered.end(), pool.begin());
}

}  // namespace

std::vector<std::size_t> diverse_order(const std::vector<Candidate>& candidates, std::size_t count,
                                       const Diversity& wanted) {
  std::vector<double> scores = standard_scores(candidates);
  std::vector<bool> is_chosen(candidates.size());
  std::vector<std::size_t> order;
  DecisionValues numbers;
  std::vector<std::vector<std::size_t>> values, in_flight;
  for (const Candidate& candidate : candidates) values.push_back(numbers.of(candidate));
  for (const Candidate& candidate : wanted.in_flight) in_flight.push_back(numbers.of(candidate));
  Covered covered(numbers.size());
  Distances distances(candidates.size());
  for (const std::vector<std::size_t>& one : in_flight) distances.add(one, values);
  while (order.size() < std::min(count, candidates.size())) {
    std::size_t best = candidates.size();
    double most = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (is_chosen[i]) continue;
      double gain = scores[i] + wanted.alpha * covered.new_part(values[i]) + wanted.spread * distances.of(i);
      if (best == candidates.size() || gain > most) best = i, most = gain;
    }
    is_chosen[best] = true;
    covered.add(values[best]);
    if (wanted.spread > 0) distances.add(values[best], values);
    order.push_back(best);
  }
  return order;
}

double spread_of(std::size_t together) {
  constexpr double kOfADoubling = 2;
  return kOfADoubling * std::max(0.0, std::log2(static_cast<double>(together) / kFullBatch));
}

std::vector<Candidate> select_batch(std::vector<Candidate> pool, const Round& round, const SelectionOptions& options) {
  sort_by_score(pool);
  int random = static_cast<int>(round.count * options.epsilon + 0.5), best = round.count - random;
  Diversity wanted{.alpha = options.is_diverse ? options.alpha : 0,
                   .spread = spread_of(round.together),
                   .in_flight = round.in_flight};
  bool is_diverse = options.is_diverse || wanted.spread > 0;
  // Among more where more are measured together: neighbours of the best may be many.
  double among = options.lambda * std::max(1.0, static_cast<double>(round.together) / kFullBatch);
  int front = is_diverse ? static_cast<int>(std::ceil(best * among)) : best;
  share_places(pool, round.elites, front, std::max(1, static_cast<int>(front * options.unproven_share)));
  if (is_diverse) put_diverse_first(pool, std::min<std::size_t>(pool.size(), front), best, wanted);
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
