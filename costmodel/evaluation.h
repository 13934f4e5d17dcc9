// How good a kind of cost model is on measured candidates that it has not learned from: cross-validation. Used by
// `tracewright model eval` and by tests.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "costmodel/accuracy.h"
#include "costmodel/cost_model.h"

namespace tw {

// What is held out: candidates of all tasks, so that each task was seen in training, or whole tasks, so that none was,
// or all tasks of an operator. The first is easiest: always look at all (TenSet, NeurIPS 2021).
enum class Holdout : u8 { Candidates, Tasks, Operators };
const char* name_of(Holdout holdout);  // "within tasks", "unseen tasks", "unseen operators"

// For each candidate the fold in which it is held out, in [0, folds). Folds have equal numbers of candidates of each
// group; or, where whole groups are held out, equal numbers of kinds, of which `kinds` has one for each group: groups
// of one kind are held out together. Which ones depends on the seed alone. At most as many folds as there are kinds.
std::vector<int> folds_of(const Dataset& data, int folds, u64 seed);
std::vector<int> folds_of(const Dataset& data, std::span<const int> kinds, int folds, u64 seed);

struct Evaluation {
  Accuracy accuracy;            // mean over the held-out groups of all folds
  double training_seconds = 0;  // of one fold
  double scoring_seconds = 0;   // of one candidate
  int untaught = 0;     // candidates of a fold of which the model learned nothing; 0: it learned something of each
  std::string problem;  // not empty: some fold could not be learned, and the rest is without meaning
};
// Makes a model for each fold, trains it on the other folds (`effort`), and lets it score the fold. k: of recall
// (accuracy.h).
Evaluation evaluate(const std::function<std::unique_ptr<CostModel>()>& make, const Dataset& data,
                    std::span<const int> fold, Effort effort, int k = 10);
// The same for scores that come from no training, such as those of the draft model: one per candidate.
Evaluation evaluate(std::span<const float> scores, const Dataset& data, std::span<const int> fold, int k = 10);

// The candidates of a dataset for which `keep` says so.
Dataset part_of(const Dataset& data, const std::function<bool(int)>& keep);

}  // namespace tw
