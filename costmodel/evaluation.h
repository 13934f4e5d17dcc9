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

// What is held out: candidates of all tasks, so that each task was seen in training, or whole tasks, so that none was.
// The first is easier: always look at both (TenSet, NeurIPS 2021).
enum class Holdout : u8 { Candidates, Tasks };
const char* name_of(Holdout holdout);  // "within tasks", "unseen tasks"

// For each candidate the fold in which it is held out, in [0, folds). Folds have equal numbers of candidates of each
// task, or of tasks; which ones depends on the seed alone. At most as many folds as there are tasks, for tasks.
std::vector<int> folds_of(const Dataset& data, Holdout holdout, int folds, u64 seed);

struct Evaluation {
  Accuracy accuracy;            // mean over the held-out groups of all folds
  double training_seconds = 0;  // of one fold
  double scoring_seconds = 0;   // of one candidate
  std::string problem;          // not empty: some fold could not be learned, and the rest is without meaning
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
