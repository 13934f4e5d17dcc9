// What every learning cost model must do, checked on the synthetic problem; used by the tests of
// each model.
#pragma once
#include <functional>
#include <memory>

#include "costmodel/accuracy.h"
#include "costmodel/cost_model.h"
#include "tests/support/synthetic_costs.h"

namespace tw {

using ModelMaker = std::function<std::unique_ptr<CostModel>(int columns, u64 seed)>;

// Accuracy of the model's scores on `data`.
Accuracy accuracy_on(const CostModel& model, const Dataset& data);

// Learns 4 tasks of 300 candidates: on 400 held-out ones of these tasks it reaches `pairwise` and
// top-5 0.9, which the random model does not come near; on tasks it never saw it is well above
// chance.
void check_learns(const ModelMaker& make, Effort effort, double pairwise);
// For models of the objective regression: the mean squared error of the scores of held-out candidates of known tasks,
// as relative speeds, is below `share` of what scoring all by their mean gives.
void check_learns_speed(const ModelMaker& make, Effort effort, double share);
// Of the held-out pairs of one that fails and one that runs, at least `share` give the one that
// fails the lower score.
void check_ranks_failed_last(const ModelMaker& make, Effort effort, double share);
// Same seed and data: same scores and bytes; another seed: others.
void check_repeats_itself(const ModelMaker& make);
// A loaded model predicts bit for bit what the saved one did, and goes on learning like it.
void check_saves_and_loads(const ModelMaker& make);
// Bytes that are cut, too long, of another kind or of other columns are rejected and change
// nothing.
void check_rejects_foreign_bytes(const ModelMaker& make);
// No candidates, candidates without rows, groups of one, a group in which everything failed.
void check_corner_cases(const ModelMaker& make);

}  // namespace tw
