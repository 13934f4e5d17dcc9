#include "costmodel/evaluation.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "dsl/base/clock.h"
#include "dsl/base/rng.h"

namespace tw {
namespace {

// 0 .. count - 1 in an order that depends on the seed.
std::vector<int> shuffled(int count, u64 seed) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  Rng rng(seed, count);
  for (int i = count; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

int folds_in(std::span<const int> fold) { return fold.empty() ? 0 : *std::max_element(fold.begin(), fold.end()) + 1; }

// Adds the accuracy of one fold to a sum over groups.
void add(Accuracy& sum, const Accuracy& part) {
  sum.top1 += part.top1 * part.groups, sum.top5 += part.top5 * part.groups;
  sum.pairwise += part.pairwise * part.groups, sum.rank += part.rank * part.groups;
  sum.recall += part.recall * part.groups;
  sum.clear_pairs += part.clear_pairs * part.clear_groups, sum.clear_groups += part.clear_groups;
  sum.k = part.k, sum.groups += part.groups;
}

Accuracy mean_of(Accuracy sum) {
  double groups = std::max(1, sum.groups);
  sum.top1 /= groups, sum.top5 /= groups, sum.pairwise /= groups, sum.rank /= groups;
  sum.recall /= groups, sum.clear_pairs /= std::max(1, sum.clear_groups);
  return sum;
}

}  // namespace

const char* name_of(Holdout holdout) {
  constexpr const char* kNames[] = {"within tasks", "unseen tasks", "unseen operators"};
  return kNames[static_cast<int>(holdout)];
}

std::vector<int> folds_of(const Dataset& data, int folds, u64 seed) {
  std::map<i32, std::vector<int>> candidates;  // of each group
  for (int i = 0; i < data.size(); ++i) candidates[data.group[i]].push_back(i);
  std::vector<int> fold(data.size());
  int group = 0;
  for (const auto& [task, own] : candidates) {
    std::vector<int> order = shuffled(static_cast<int>(own.size()), mix64(seed + static_cast<u64>(++group)));
    for (std::size_t i = 0; i < own.size(); ++i) fold[own[i]] = order[i] % folds;
  }
  return fold;
}

std::vector<int> folds_of(const Dataset& data, std::span<const int> kinds, int folds, u64 seed) {
  std::map<int, int> number;
  for (i32 group : data.group) number.try_emplace(kinds[group], static_cast<int>(number.size()));
  std::vector<int> fold(data.size()), place = shuffled(static_cast<int>(number.size()), seed);
  for (int i = 0; i < data.size(); ++i) fold[i] = place[number[kinds[data.group[i]]]] % folds;
  return fold;
}

Dataset part_of(const Dataset& data, const std::function<bool(int)>& keep) {
  Dataset out;
  out.features.columns = data.features.columns;
  for (int i = 0; i < data.size(); ++i) {
    if (keep(i)) out.add(data, i);
  }
  return out;
}

Evaluation evaluate(const std::function<std::unique_ptr<CostModel>()>& make, const Dataset& data,
                    std::span<const int> fold, Effort effort, int k) {
  Evaluation out;
  int folds = folds_in(fold);
  for (int f = 0; f < folds; ++f) {
    std::unique_ptr<CostModel> model = make();
    double begin = seconds_now();
    const Dataset others = part_of(data, [&](int i) { return fold[i] != f; });
    TrainReport report = model->update(others, effort);
    out.training_seconds += (seconds_now() - begin) / folds;
    if (!report.problem.empty()) return {.problem = report.problem};
    if (report.passes == 0) out.untaught = others.size();
    Dataset held_out = part_of(data, [&](int i) { return fold[i] == f; });
    begin = seconds_now();
    std::vector<float> scores = model->predict(held_out.features);
    out.scoring_seconds += (seconds_now() - begin) / std::max(1, data.size());
    add(out.accuracy, accuracy(scores, held_out.seconds, held_out.group, k));
  }
  out.accuracy = mean_of(out.accuracy);
  return out;
}

Evaluation evaluate(std::span<const float> scores, const Dataset& data, std::span<const int> fold, int k) {
  Evaluation out;
  for (int f = 0; f < folds_in(fold); ++f) {
    std::vector<float> own;
    for (int i = 0; i < data.size(); ++i) {
      if (fold[i] == f) own.push_back(scores[i]);
    }
    Dataset held_out = part_of(data, [&](int i) { return fold[i] == f; });
    add(out.accuracy, accuracy(own, held_out.seconds, held_out.group, k));
  }
  out.accuracy = mean_of(out.accuracy);
  return out;
}

}  // namespace tw
