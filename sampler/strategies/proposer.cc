#include "sampler/strategies/proposer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "costmodel/trace_rows.h"
#include "dsl/base/check.h"
#include "dsl/base/clock.h"
#include "sampler/draw/mutator.h"
#include "sampler/space/build_neighbours.h"
#include "sampler/space/other_sketches.h"
#include "sampler/space/parallel_for.h"

namespace tw {

// One candidate on its way.
struct Proposer::Item {
  enum class Fate : u8 { Missing, Dropped, Rejected, Known, Built } fate = Fate::Dropped;
  Candidate candidate;
  Rng rng;
  std::vector<float> rows;
};

bool has_higher_score(const Candidate& a, const Candidate& b) { return a.score > b.score; }

Proposer::Proposer(const Round& round) : round_(round) {
  for (int i = 0; i < std::max(1, round.options.threads); ++i)
    builders_.push_back(std::make_unique<CandidateBuilder>(round.space));
}

Proposer::~Proposer() {
  for (const auto& builder : builders_) round_.stats.build += builder->seconds();
}

// ---- building

std::vector<Candidate> Proposer::build_new(int count, u64 label, const Make& make) {
  return built_new(make_items(count, label, make, true));
}

std::vector<Candidate> Proposer::build_best(int count, int wanted, u64 label, const Make& make) {
  std::vector<Item> items = make_items(count, label, make, true);
  keep_best_traces(items, wanted);
  return built_new(std::move(items));
}

std::vector<Candidate> Proposer::built_new(std::vector<Item> items) {
  build_items(items);
  std::vector<Candidate> out;
  for (Item& item : items) {
    if (note(item) && met_.insert(item.candidate.program).second) out.push_back(std::move(item.candidate));
  }
  return out;
}

std::vector<std::optional<Candidate>> Proposer::build_each(int count, u64 label, const Make& make) {
  std::vector<Item> items = make_items(count, label, make, false);
  build_items(items);
  std::vector<std::optional<Candidate>> out(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (note(items[i])) out[i] = std::move(items[i].candidate);
  }
  return out;
}

// Where only new ones are wanted, those that are not new are left out.
std::vector<Proposer::Item> Proposer::make_items(int count, u64 label, const Make& make, bool only_new) {
  double begin = seconds_now();
  std::vector<Item> items;
  for (int number = 0; number < count; ++number) {
    Item item{.candidate = {}, .rng = round_.rng.fork(label * 1000003 + static_cast<u64>(number)), .rows = {}};
    bool is_made = make(number, item.candidate, item.rng), is_wanted = is_made && (!only_new || is_new(item.candidate));
    if (!is_made) item.fate = Item::Fate::Missing;
    if (is_made && !is_wanted) ++round_.stats.repeats;
    if (is_wanted || !only_new) items.push_back(std::move(item));
  }
  round_.stats.draw_seconds += seconds_now() - begin;
  return items;
}

// Open decisions are made by a replay as far as the last of them; where that fails, the candidate is left out.
void Proposer::keep_best_traces(std::vector<Item>& items, int wanted) {
  FeatureKind kind = round_.space.features;
  parallel_for(static_cast<int>(items.size()), static_cast<int>(builders_.size()), [&](int number, int thread) {
    Item& item = items[number];
    if (decision_key(item.candidate) == 0 && !builders_[thread]->decide(item.candidate, &item.rng)) {
      item.fate = Item::Fate::Missing;
      return;
    }
    const Trace& trace = round_.space.space.sketches[item.candidate.sketch].trace;
    extract_trace_rows(kind, trace, item.candidate.decisions, item.rows);
  });
  std::erase_if(items, [](const Item& item) { return item.fate == Item::Fate::Missing; });
  FeatureBatch batch{.columns = columns_of(kind)};
  for (Item& item : items) batch.add(std::exchange(item.rows, {}));
  double begin = seconds_now();
  std::vector<float> scores = round_.model->predict(batch);
  round_.stats.model_seconds += seconds_now() - begin;
  for (std::size_t i = 0; i < items.size(); ++i) items[i].candidate.score = scores[i];
  std::ranges::stable_sort(items, std::greater(), [](const Item& item) { return item.candidate.score; });
  items.erase(items.begin() + std::min(static_cast<int>(items.size()), wanted), items.end());
}

// Those of a sketch one after the other, sorted by their decisions: builders go on from what two in a row have in
// common.
void Proposer::build_items(std::vector<Item>& items) {
  build_neighbours(
      static_cast<int>(items.size()), builders_, [&](int i) -> const Candidate& { return items[i].candidate; },
      [&](int i, CandidateBuilder& builder) {
        if (!must_stop()) build(items[i], builder);
      });
}

// Not the decisions of one that was built in this round: replaying it again would give the same program. Open
// decisions are new.
bool Proposer::is_new(const Candidate& candidate) {
  u64 key = decision_key(candidate);
  return key == 0 || decisions_.insert(key).second;
}

// Looks it up or builds it. Touches nothing that other threads do.
void Proposer::build(Item& item, CandidateBuilder& builder) const {
  if (item.fate == Item::Fate::Missing || look_up(item)) return;
  item.fate = Item::Fate::Rejected;
  if (!builder.decide(item.candidate, &item.rng) || look_up(item)) return;
  bool needs_features = round_.model || round_.options.keep_features;
  if (builder.finish(item.candidate, needs_features ? &item.rows : nullptr, &round_.known))
    item.fate = Item::Fate::Built;
}

bool Proposer::look_up(Item& item) const {
  const Built* built = round_.known.find(decision_key(item.candidate));
  if (!built) return false;
  item.fate = Item::Fate::Known;
  item.candidate.program = built->program;
  item.candidate.draft = built->draft;
  return true;
}

// Remembers what came of an item. False: there is no candidate.
bool Proposer::note(Item& item) {
  if (item.fate == Item::Fate::Missing || item.fate == Item::Fate::Dropped) return false;
  Candidate& candidate = item.candidate;
  if (item.fate == Item::Fate::Rejected) return ++round_.stats.rejected, false;
  if (item.fate == Item::Fate::Built) {
    round_.known.add(decision_key(candidate), {candidate.program, candidate.draft});
    if (!item.rows.empty()) round_.known.keep_features(candidate.program, std::move(item.rows));
  }
  bool is_new = round_.known.add_program(candidate.program, candidate.draft);
  ++(is_new ? round_.stats.candidates : round_.stats.repeats);
  return true;
}

// ---- drawing and changing

bool Proposer::draw_any(Candidate& candidate, Rng& rng) const {
  return draw(static_cast<int>(rng.below(static_cast<i64>(round_.space.space.sketches.size()))), candidate, rng);
}

bool Proposer::draw_in_turn(int item, Candidate& candidate, Rng& rng) const {
  return draw(item % static_cast<int>(round_.space.space.sketches.size()), candidate, rng);
}

std::vector<Candidate> Proposer::random_batch() {
  constexpr u64 kAttempts = 8;  // of a space that is nearly measured, most draws are repeats
  constexpr int kLeast = 64;
  for (u64 attempt = 0; attempt < kAttempts && !must_stop(); ++attempt) {
    offer(draws(std::max(kLeast, 2 * round_.count), 1 + attempt));
    if (pool_size() >= round_.count) break;
  }
  std::vector<Candidate> batch = take_pool();
  batch.resize(std::min<std::size_t>(batch.size(), round_.count));
  return batch;
}

std::vector<Candidate> Proposer::draws(int count, u64 label) {
  return build_new(count, label,
                   [&](int item, Candidate& candidate, Rng& rng) { return draw_in_turn(item, candidate, rng); });
}

bool Proposer::change(Candidate& candidate, double fork_probability, int& new_sketches, Rng& rng) const {
  if (rng.uniform() < fork_probability && change_fork(candidate, new_sketches, rng)) return true;
  const Sketch& sketch = round_.space.space.sketches[candidate.sketch];
  return mutate(sketch.trace, *sketch.prior, candidate.decisions, rng);
}

// Takes another alternative at one fork.
bool Proposer::change_fork(Candidate& candidate, int& new_sketches, Rng& rng) const {
  const Sketch& sketch = round_.space.space.sketches[candidate.sketch];
  if (sketch.forks.empty()) return false;
  auto fork = static_cast<std::size_t>(rng.below(static_cast<i64>(sketch.forks.size())));
  int taken = static_cast<int>(rng.below(sketch.forks[fork].count - 1));
  if (taken >= sketch.forks[fork].taken) ++taken;
  bool is_known = round_.space.ways.contains({candidate.sketch, fork, taken});
  if (!is_known && new_sketches-- <= 0) return false;
  int other = with_fork(round_.space, candidate.sketch, fork, taken);
  return other >= 0 && other != candidate.sketch && move_to_sketch(round_.space, candidate, other, rng);
}

// ---- scoring

void Proposer::score(std::vector<Candidate>& candidates) {
  if (!round_.model) {
    for (Candidate& candidate : candidates) candidate.score = static_cast<float>(-std::log(candidate.draft));
    return;
  }
  std::optional<float> best = best_measured();
  std::vector<std::vector<float>> missing = missing_features(candidates);
  double begin = seconds_now();
  FeatureBatch batch = features_of(candidates, missing);
  if (round_.acquisition.kind == Acquisition::Kind::Mean) {
    std::vector<float> scores = round_.model->predict(batch);
    for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i].score = scores[i];
  } else {
    std::vector<Prediction> predictions = round_.model->predict_with_deviation(batch);
    for (std::size_t i = 0; i < candidates.size(); ++i)
      candidates[i].score = acquisition_of(round_.acquisition, predictions[i], best);
  }
  round_.stats.model_seconds += seconds_now() - begin;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!missing[i].empty()) round_.known.keep_features(candidates[i].program, std::move(missing[i]));
  }
}

// What improvements are expected over; nothing where that is not asked for, or nothing is measured.
std::optional<float> Proposer::best_measured() {
  bool is_asked = round_.acquisition.kind == Acquisition::Kind::ExpectedImprovement;
  if (!is_asked || best_ || round_.elites.empty() || !round_.times.contains(round_.elites[0].program)) return best_;
  std::vector<Candidate> best = {round_.elites[0]};
  std::vector<std::vector<float>> missing = missing_features(best);
  best_ = round_.model->predict_with_deviation(features_of(best, missing))[0].mean;
  return best_;
}

FeatureBatch Proposer::features_of(const std::vector<Candidate>& candidates,
                                   std::vector<std::vector<float>>& missing) const {
  FeatureBatch batch;
  batch.columns = columns_of(round_.space.features);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::vector<float>* kept = round_.known.features(candidates[i].program);
    batch.add(kept ? *kept : missing[i]);
  }
  return batch;
}

// Builds those again whose features were not kept; for the others nothing.
std::vector<std::vector<float>> Proposer::missing_features(const std::vector<Candidate>& candidates) const {
  std::vector<std::vector<float>> rows(candidates.size());
  parallel_for(static_cast<int>(candidates.size()), static_cast<int>(builders_.size()), [&](int item, int thread) {
    if (round_.known.features(candidates[item].program)) return;
    Candidate copy = candidates[item];
    TW_CHECK(builders_[thread]->build(copy, nullptr, &rows[item]), "a candidate that was built cannot be built again");
  });
  return rows;
}

// ---- the pool

void Proposer::offer(const std::vector<Candidate>& scored) {
  for (const Candidate& candidate : scored) {
    if (!round_.measured.count(candidate.program) && offered_.insert(candidate.program).second)
      pool_.push_back(candidate);
  }
  if (pool_.size() <= 2 * kPool) return;
  std::stable_sort(pool_.begin(), pool_.end(), has_higher_score);
  pool_.resize(kPool);
}

std::vector<Candidate> Proposer::take_pool() { return std::move(pool_); }

}  // namespace tw
