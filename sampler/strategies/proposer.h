// Proposer: what all strategies do with candidates in one round: draw, change, build on several threads, score, and
// collect what may be measured. Results do not depend on the number of threads: each item has random numbers of its
// own, and what comes of it is noted in the order of the items.
#pragma once
#include <memory>
#include <optional>
#include <unordered_set>

#include "sampler/strategies/strategy.h"

namespace tw {

class Proposer {
 public:
  explicit Proposer(const Round& round);
  ~Proposer();
  Proposer(const Proposer&) = delete;

  // Fills in a candidate that is not built yet; false = there is none. Called in the order of the items.
  using Make = std::function<bool(int item, Candidate& candidate, Rng& rng)>;
  // Builds `count` candidates. Those whose program is new in this round are returned, in order. Items of different
  // labels have different random numbers.
  std::vector<Candidate> build_new(int count, u64 label, const Make& make);
  // The same, one result for each item, whether its program was met before or not; nothing where it was rejected.
  std::vector<std::optional<Candidate>> build_each(int count, u64 label, const Make& make);
  // Does the model score candidates by their traces alone (as TLP, ASPLOS 2023)?
  bool scores_traces() const { return round_.model && !needs_program(round_.space.features); }
  // Where it does: build_new() of the `wanted` that it scores highest of `count`.
  std::vector<Candidate> build_best(int count, int wanted, u64 label, const Make& make);

  // A candidate from the prior, not built yet. False: the sketch has no valid draw.
  bool draw(int sketch, Candidate& candidate, Rng& rng) const { return builders_[0]->draw(sketch, candidate, rng); }
  bool draw_any(Candidate& candidate, Rng& rng) const;
  // The same from the sketch whose turn it is.
  bool draw_in_turn(int item, Candidate& candidate, Rng& rng) const;
  // So many of them, in turn of all sketches, built.
  std::vector<Candidate> draws(int count, u64 label);
  // A batch of draws that are not measured yet, in the order in which they come, scored by nothing.
  std::vector<Candidate> random_batch();
  // Changes a candidate a little: with this probability it takes another way at a fork and keeps all other decisions,
  // else a mutator changes a decision. `new_sketches`: how many sketches may still be built for that; each takes as
  // long as many replays. False if nothing can change.
  bool change(Candidate& candidate, double fork_probability, int& new_sketches, Rng& rng) const;

  // Scores by the model, or by the draft model where there is none.
  void score(std::vector<Candidate>& candidates);

  // Adds those to the pool that are not measured and not in it yet. Of very many the best by score stay.
  void offer(const std::vector<Candidate>& scored);
  int pool_size() const { return static_cast<int>(pool_.size()); }
  std::vector<Candidate> take_pool();

  // No time is left: what is built from here on is not used.
  bool must_stop() const { return round_.options.stop && round_.options.stop(); }

 private:
  struct Item;
  std::vector<Item> make_items(int count, u64 label, const Make& make, bool only_new);
  void build_items(std::vector<Item>& items);
  std::vector<Candidate> built_new(std::vector<Item> items);
  void keep_best_traces(std::vector<Item>& items, int wanted);
  void build(Item& item, CandidateBuilder& builder) const;
  bool look_up(Item& item) const;
  bool note(Item& item);
  bool is_new(const Candidate& candidate);
  bool change_fork(Candidate& candidate, int& new_sketches, Rng& rng) const;
  std::vector<std::vector<float>> missing_features(const std::vector<Candidate>& candidates) const;
  FeatureBatch features_of(const std::vector<Candidate>& candidates, std::vector<std::vector<float>>& missing) const;
  std::optional<float> best_measured();

  static constexpr std::size_t kPool = 8192;

  const Round& round_;
  std::vector<std::unique_ptr<CandidateBuilder>> builders_;
  HashSet met_;                        // programs of this round
  std::unordered_set<u64> decisions_;  // and complete decisions
  std::vector<Candidate> pool_;
  HashSet offered_;
  std::optional<float> best_;  // the prediction for the best measured candidate
};

bool has_higher_score(const Candidate& a, const Candidate& b);

}  // namespace tw
