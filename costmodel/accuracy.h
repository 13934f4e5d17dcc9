// How good a cost model's scores are, against measured seconds. Used by tune (on each batch before
// learning from it), by the commands that train a model, and by tests. Says nothing about how the
// data were split: pass held-out data only.
#pragma once
#include <span>
#include <string>

#include "costmodel/cost_model.h"

namespace tw {

// Means over groups that have at least two candidates with different seconds. Equal scores are
// taken in the least favourable order for top-k and recall, and count half for pairs, so a constant
// model gains nothing from the order.
struct Accuracy {
  double top1 = 0;      // seconds of the fastest / of the one scored best; 1 = it is the fastest
  double top5 = 0;      // the same with the fastest of the 5 scored best; failed = 0
  double pairwise = 0;  // share of pairs with different seconds that are scored in the right order
  // The same of pairs whose slower candidate takes at least kClear times as long. A second measurement might order
  // closer pairs in the other way. Mean over `clear_groups`.
  double clear_pairs = 0;
  double rank = 0;       // Spearman's correlation of the ranks by score and by speed; equal ones share their mean rank
  double recall = 0;     // share of the k fastest that are among the k scored best
  int k = 0;             // of recall; in a group of n it is min(k, n / 2)
  int groups = 0;        // counted groups; 0: nothing could be compared and all shares are 0
  int clear_groups = 0;  // those that have such a pair
  static constexpr double kClear = 1.1;
};

// One score, one time (infinity = failed) and one group per candidate. Quadratic in the size of a
// group.
Accuracy accuracy(std::span<const float> scores, std::span<const double> seconds, std::span<const i32> group,
                  int k = 10);

// "top-1 0.912, top-5 0.987, pairs 0.874, recall@10 0.60 (3 tasks)"
std::string to_string(const Accuracy& accuracy);

}  // namespace tw
