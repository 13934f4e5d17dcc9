#include "sampler/strategies/evolution.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>

#include "dsl/base/clock.h"
#include "sampler/draw/mutator.h"
#include "sampler/space/other_sketches.h"
#include "sampler/space/parallel_for.h"

namespace tw {
namespace {

bool has_lower_draft(const Candidate& a, const Candidate& b) { return a.draft < b.draft; }
bool has_higher_score(const Candidate& a, const Candidate& b) { return a.score > b.score; }

// One proposal of a batch on its way.
struct Proposal {
  enum class Fate : u8 { Dropped, Rejected, Known, Built } fate = Fate::Dropped;
  Candidate candidate;
  Rng rng;
  std::vector<float> rows;
};

class Evolution {
 public:
  Evolution(CandidateSpace& space, const EvolutionOptions& options, const Rng& rng, const CostModel* model,
            KnownCandidates& known, EvolutionStats& stats)
      : space_(space), options_(options), rng_(rng), model_(model), known_(known), stats_(stats) {
    for (int i = 0; i < std::max(1, options.threads); ++i)
      builders_.push_back(std::make_unique<CandidateBuilder>(space));
  }
  ~Evolution() {
    for (const auto& builder : builders_) stats_.build += builder->seconds();
  }
  Evolution(const Evolution&) = delete;

  // make(item, candidate, rng) fills in a candidate that is not built yet; false = there is none. Those whose program
  // is new in this round are returned in the order of the items.
  template <class Make>
  std::vector<Candidate> build_all(int count, u64 label, Make make) {
    double begin = seconds_now();
    std::vector<Proposal> proposals;
    for (int item = 0; item < count; ++item) {
      Rng rng = rng_.fork(label * 1000003 + static_cast<u64>(item));
      Candidate candidate;
      if (!make(item, candidate, rng)) continue;
      if (is_new(candidate))
        proposals.push_back({.candidate = std::move(candidate), .rng = rng, .rows = {}});
      else
        ++stats_.repeats;
    }
    stats_.draw_seconds += seconds_now() - begin;
    std::vector<int> order = by_decisions(proposals);
    parallel_for(ceil_div(static_cast<int>(order.size()), kRun), static_cast<int>(builders_.size()),
                 [&](int run, int thread) {
                   if (must_stop()) return;
                   for (std::size_t i = static_cast<std::size_t>(run) * kRun;
                        i < std::min<std::size_t>(order.size(), (run + 1) * kRun); ++i) {
                     build(proposals[order[i]], *builders_[thread]);
                   }
                 });
    std::vector<Candidate> out;
    for (Proposal& proposal : proposals) {
      if (take(proposal)) out.push_back(std::move(proposal.candidate));
    }
    return out;
  }

  bool must_stop() const { return options_.stop && options_.stop(); }

  std::vector<Candidate> draw(int count, u64 label) {
    int sketches = static_cast<int>(space_.space.sketches.size());
    return build_all(count, label, [&](int item, Candidate& candidate, Rng& rng) {
      return builders_[0]->draw(item % sketches, candidate, rng);
    });
  }

  // Scores by the model, or by the draft model where there is none.
  void score(std::vector<Candidate>& candidates) {
    if (!model_) {
      for (Candidate& candidate : candidates) candidate.score = static_cast<float>(-std::log(candidate.draft));
      return;
    }
    std::vector<std::vector<float>> missing = missing_features(candidates);
    double begin = seconds_now();
    FeatureBatch batch;
    batch.columns = feature_columns();
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::vector<float>* kept = known_.features(candidates[i].program);
      batch.add(kept ? *kept : missing[i]);
    }
    std::vector<float> scores = model_->predict(batch);
    for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i].score = scores[i];
    stats_.model_seconds += seconds_now() - begin;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!missing[i].empty()) known_.keep_features(candidates[i].program, std::move(missing[i]));
    }
  }

  // One generation: children of parents drawn by score, more than wanted, the best drafts of which survive.
  std::vector<Candidate> breed(const std::vector<Candidate>& parents, int wanted, u64 label) {
    std::vector<double> cumulative = weights(parents);
    int new_sketches = options_.new_sketches;
    std::vector<Candidate> children = build_all(2 * wanted, label, [&](int, Candidate& child, Rng& rng) {
      if (rng.uniform() > options_.mutate_probability) {
        return builders_[0]->draw(static_cast<int>(rng.below(static_cast<i64>(space_.space.sketches.size()))), child,
                                  rng);
      }
      double at = rng.uniform() * cumulative.back();
      std::size_t parent = std::upper_bound(cumulative.begin(), cumulative.end(), at) - cumulative.begin();
      child = parents[std::min(parent, parents.size() - 1)];
      if (rng.uniform() < options_.fork_probability && change_fork(child, new_sketches, rng)) return true;
      const Sketch& sketch = space_.space.sketches[child.sketch];
      return mutate(sketch.trace, *sketch.prior, child.decisions, rng);
    });
    keep_best_drafts(children, wanted);
    return children;
  }

  // Most are kept for their draft score; a quarter of the places goes to the others in order, so that what the draft
  // model misjudges is seen by the learned one.
  static void keep_best_drafts(std::vector<Candidate>& candidates, int wanted) {
    if (static_cast<int>(candidates.size()) <= wanted) return;
    std::stable_sort(candidates.begin(), candidates.end(), has_lower_draft);
    int best = wanted * 3 / 4, rest = wanted - best;
    int step = std::max<int>(1, (static_cast<int>(candidates.size()) - best) / std::max(1, rest));
    std::vector<Candidate> kept(candidates.begin(), candidates.begin() + best);
    for (int i = best; i < static_cast<int>(candidates.size()) && static_cast<int>(kept.size()) < wanted; i += step)
      kept.push_back(candidates[i]);
    candidates = std::move(kept);
  }

 private:
  // Takes another alternative at one fork. `new_sketches`: how many sketches may still be built; each takes as long as
  // many replays.
  bool change_fork(Candidate& child, int& new_sketches, Rng& rng) {
    const Sketch& sketch = space_.space.sketches[child.sketch];
    if (sketch.forks.empty()) return false;
    auto fork = static_cast<std::size_t>(rng.below(static_cast<i64>(sketch.forks.size())));
    int taken = static_cast<int>(rng.below(sketch.forks[fork].count - 1));
    if (taken >= sketch.forks[fork].taken) ++taken;
    bool is_known = space_.ways.contains({child.sketch, fork, taken});
    if (!is_known && new_sketches-- <= 0) return false;
    int other = with_fork(space_, child.sketch, fork, taken);
    return other >= 0 && other != child.sketch && move_to_sketch(space_, child, other, rng);
  }

  static constexpr int kRun = 32;  // proposals in a row that one thread builds
  static int ceil_div(int a, int b) { return (a + b - 1) / b; }

  // Those of a sketch one after the other, sorted by their decisions: builders go on from what two in a row have in
  // common.
  static std::vector<int> by_decisions(const std::vector<Proposal>& proposals) {
    std::vector<int> order(proposals.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      const Candidate &x = proposals[a].candidate, &y = proposals[b].candidate;
      if (x.sketch != y.sketch) return x.sketch < y.sketch;
      for (std::size_t i = 0; i < std::min(x.decisions.size(), y.decisions.size()); ++i) {
        const Decision &p = x.decisions[i], &q = y.decisions[i];
        if (p != q) return std::lexicographical_compare(p.values, p.values + p.count, q.values, q.values + q.count);
      }
      return a < b;
    });
    return order;
  }

  // Not the decisions of one that was built in this round: replaying it again would give the same program. Open
  // decisions are new.
  bool is_new(const Candidate& candidate) {
    u64 key = decision_key(candidate);
    return key == 0 || decisions_.insert(key).second;
  }

  // Looks it up or builds it. Touches nothing that other threads do.
  void build(Proposal& proposal, CandidateBuilder& builder) const {
    if (look_up(proposal)) return;
    proposal.fate = Proposal::Fate::Rejected;
    if (!builder.decide(proposal.candidate, &proposal.rng) || look_up(proposal)) return;
    if (builder.finish(proposal.candidate, model_ || options_.keep_features ? &proposal.rows : nullptr, &known_))
      proposal.fate = Proposal::Fate::Built;
  }

  bool look_up(Proposal& proposal) const {
    const Built* built = known_.find(decision_key(proposal.candidate));
    if (!built) return false;
    proposal.fate = Proposal::Fate::Known;
    proposal.candidate.program = built->program;
    proposal.candidate.draft = built->draft;
    return true;
  }

  // Remembers what came of a proposal. False: it is not new in this round.
  bool take(Proposal& proposal) {
    Candidate& candidate = proposal.candidate;
    if (proposal.fate == Proposal::Fate::Rejected) return ++stats_.rejected, false;
    if (proposal.fate == Proposal::Fate::Built) {
      known_.add(decision_key(candidate), {candidate.program, candidate.draft});
      if (!proposal.rows.empty()) known_.keep_features(candidate.program, std::move(proposal.rows));
    }
    bool is_new = known_.add_program(candidate.program, candidate.draft);
    ++(is_new ? stats_.candidates : stats_.repeats);
    return round_.insert(candidate.program).second;
  }

  // Builds those again whose features were not kept; for the others nothing.
  std::vector<std::vector<float>> missing_features(const std::vector<Candidate>& candidates) const {
    std::vector<std::vector<float>> rows(candidates.size());
    parallel_for(static_cast<int>(candidates.size()), static_cast<int>(builders_.size()), [&](int item, int thread) {
      if (known_.features(candidates[item].program)) return;
      Candidate copy = candidates[item];
      TW_CHECK(builders_[thread]->build(copy, nullptr, &rows[item]),
               "a candidate that was built cannot be built again");
    });
    return rows;
  }

  // Sampling weights: exponential in the score, measured in standard deviations.
  static std::vector<double> weights(const std::vector<Candidate>& parents) {
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

  CandidateSpace& space_;
  const EvolutionOptions& options_;
  const Rng& rng_;
  const CostModel* model_;  // null = the draft model alone
  KnownCandidates& known_;
  EvolutionStats& stats_;
  std::vector<std::unique_ptr<CandidateBuilder>> builders_;
  HashSet round_;                      // programs met in this round
  std::unordered_set<u64> decisions_;  // and complete decisions
};

void sort_by_score(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(), has_higher_score);
}

// Chooses the first `places` of a pool that is sorted by score: of a sketch that no elite is of at most `share`, as
// long as there are others.
void share_places(std::vector<Candidate>& pool, const std::vector<Candidate>& elites, int places, int share) {
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

}  // namespace

std::vector<Candidate> evolve(CandidateSpace& space, const std::vector<Candidate>& elites, const HashSet& measured,
                              const CostModel* model, int count, const Rng& rng, const EvolutionOptions& options,
                              KnownCandidates& known, EvolutionStats& stats) {
  Evolution evolution(space, options, rng, model, known, stats);
  std::vector<Candidate> population = evolution.draw(options.draws, 1);
  Evolution::keep_best_drafts(population, options.population);
  int kept =
      std::min<int>(static_cast<int>(elites.size()), static_cast<int>(options.population * options.measured_ratio));
  population.insert(population.end(), elites.begin(), elites.begin() + kept);
  if (population.empty()) return {};

  std::vector<Candidate> pool;  // everything scored that is not measured
  for (int generation = 0;; ++generation) {
    if (evolution.must_stop()) return {};
    evolution.score(population);
    for (const Candidate& candidate : population) {
      if (!measured.count(candidate.program)) pool.push_back(candidate);
    }
    if (generation == options.generations) break;
    population = evolution.breed(population, options.population, 2 + static_cast<u64>(generation));
    if (population.empty()) break;
  }
  sort_by_score(pool);
  int random = static_cast<int>(count * options.epsilon + 0.5), best = count - random;
  share_places(pool, elites, best, std::max(1, static_cast<int>(best * options.unproven_share)));
  std::vector<Candidate> batch(pool.begin(), pool.begin() + std::min<std::size_t>(pool.size(), best));
  Rng picks = rng.fork(0x65707369);
  for (std::size_t i = batch.size(); i < pool.size() && static_cast<int>(batch.size()) < count; ++i) {
    std::size_t other = i + static_cast<std::size_t>(picks.below(static_cast<i64>(pool.size() - i)));
    std::swap(pool[i], pool[other]);
    batch.push_back(pool[i]);
  }
  return batch;
}

std::optional<Candidate> construct(CandidateSpace& space, const Rng& rng, const EvolutionOptions& options,
                                   KnownCandidates& known, EvolutionStats& stats) {
  Evolution evolution(space, options, rng, nullptr, known, stats);
  std::vector<Candidate> population = evolution.draw(options.draws, 1);
  for (int generation = 0; generation < options.generations && !population.empty() && !evolution.must_stop();
       ++generation) {
    evolution.score(population);
    std::vector<Candidate> children = evolution.breed(population, options.population, 2 + static_cast<u64>(generation));
    population.insert(population.end(), children.begin(), children.end());
    std::stable_sort(population.begin(), population.end(), has_lower_draft);
    population.resize(std::min<std::size_t>(population.size(), options.population));
  }
  if (population.empty()) return std::nullopt;
  return population[0];
}

}  // namespace tw
