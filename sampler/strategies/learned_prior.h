// LearnedPrior: a prior over decisions that is learned from good programs of an operator (after TLM, OSDI 2024). These
// are what a round begins with (Round::elites): measured ones of the task, those of other machines, and transfer seeds.
#pragma once
#include <map>
#include <span>
#include <vector>

#include "sampler/space/candidate.h"

namespace tw {

class LearnedPrior {
 public:
  // `good`: fastest first; the first ones count most, and only the first kMost at all. All are decided.
  explicit LearnedPrior(std::span<const Candidate> good);
  static constexpr std::size_t kMost = 32;

  bool is_empty() const { return good_.empty(); }
  // Draws a sketch as often as good programs have it, then its decisions: each with even chances from those of the
  // good programs of this sketch or from the rules' prior, so every candidate of these sketches can be drawn. What does
  // not satisfy the conditions is left as the rules' prior has it. False if the sketch has no valid draw, or nothing
  // was learned.
  bool draw(const CandidateSpace& space, Candidate& candidate, Rng& rng) const;

 private:
  const Candidate& drawn(const std::vector<std::size_t>& among, Rng& rng) const;

  std::span<const Candidate> good_;
  std::vector<std::size_t> all_;
  std::map<int, std::vector<std::size_t>> of_sketch_;
};

}  // namespace tw
