// What a cost model learns of measured candidates, and the losses of the boosted models as derivatives by the scores.
// Networks have the same losses in LibTorch (torch/training.cc).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

// Usual: what each model was made for (tree: regression, the others: rank). Rank: the order within a group. Regression:
// the relative speed itself.
enum class Objective : u8 { Usual, Rank, Regression };
// usual, rank, regression
std::vector<std::string> objective_names();
std::optional<Objective> parse_objective(std::string_view name);
std::string name_of(Objective objective);
// What is learned where `asked` is asked of a model that was made for `own`.
constexpr Objective resolved(Objective asked, Objective own) { return asked == Objective::Usual ? own : asked; }

// Candidates to learn from; views of arrays that somebody else owns.
struct Learned {
  std::span<const float> speed;         // per candidate, relative_speed()
  std::span<const std::int32_t> group;  // per candidate
  std::span<const int> places;          // of those that count; the others are there to be judged
};

// First and second derivatives by the scores, per candidate; both 0 for candidates that do not count.
struct Slopes {
  std::vector<float> gradient, curvature;
  double loss = 0;  // mean over the candidates that count
};

// The squared error on the relative speed, weighted from `slow_weight` for those that failed to 1 for the fastest.
void squared_slopes(const Learned& data, std::span<const float> scores, float slow_weight, Slopes& out);

// Every pair of a group costs log(1 + e^(score of the slower - score of the faster)), weighted by the speed of the
// faster one, because what counts in the end is the order among the fast ones, and a little more, so that the slow are
// told from the failed. A candidate meets at most 63 others of its group, drawn anew in each pass: all pairs would cost
// the square of the group. The mean over those that it meets is its share of the loss.
void pairwise_slopes(const Learned& data, std::span<const float> scores, u64 seed, int pass, Slopes& out);

}  // namespace tw
