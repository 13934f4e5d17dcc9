#include "costmodel/tree_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "costmodel/model_bytes.h"

namespace tw {
namespace {

int summary_columns(int columns) { return 2 * columns + 1; }

// One row per candidate: sums, maxima, number of rows.
std::vector<float> summarise(const FeatureBatch& batch) {
  const int columns = batch.columns, width = summary_columns(columns);
  std::vector<float> out(static_cast<std::size_t>(batch.size()) * width, 0.0f);
  for (int c = 0; c < batch.size(); ++c) {
    float* sum = out.data() + static_cast<std::size_t>(c) * width;
    float* highest = sum + columns;
    const i32 begin = batch.first_row[c], end = batch.first_row[c + 1];
    if (begin < end) std::copy_n(batch.row(begin), columns, highest);
    for (i32 r = begin; r < end; ++r) {
      const float* row = batch.row(r);
      for (int k = 0; k < columns; ++k) {
        sum[k] += row[k];
        highest[k] = std::max(highest[k], row[k]);
      }
    }
    highest[columns] = static_cast<float>(end - begin);
  }
  return out;
}

// Squared error on the square root of the relative speed, weighted towards the fast: half as fast
// counts as 0.71, so slow candidates are told apart too, but it matters most to get the fast ones
// right.
float target_of(float speed) { return std::sqrt(speed); }
float weight_of(float speed) { return 0.2f + speed; }

}  // namespace

std::vector<float> TreeModel::predict(const FeatureBatch& batch) const {
  TW_CHECK(batch.columns == columns_);
  if (trees_.empty()) return std::vector<float>(batch.size(), 0.0f);
  const std::vector<float> x = summarise(batch);
  return evaluate_trees(trees_, {x.data(), batch.size(), summary_columns(columns_)});
}

float TreeModel::fit_speed(MatrixView x, std::span<const float> speed, std::span<const float> base,
                           const TreeOptions& options) {
  std::vector<float> target(speed.size()), weight(speed.size());
  std::transform(speed.begin(), speed.end(), base.begin(), target.begin(),
                 [](float own, float known) { return target_of(own) - known; });
  std::transform(speed.begin(), speed.end(), weight.begin(), weight_of);
  trees_ = fit_trees(x, target, weight, options, seed_);
  const std::vector<float> fitted = evaluate_trees(trees_, x);
  double loss = 0, mass = 0;
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    loss += weight[i] * (fitted[i] - target[i]) * (fitted[i] - target[i]);
    mass += weight[i];
  }
  return mass > 0 ? static_cast<float>(loss / mass) : 0.0f;
}

float TreeModel::fit_order(MatrixView x, std::span<const float> speed, std::span<const std::int32_t> group,
                           std::span<const float> base, const TreeOptions& options) {
  Slopes pairs;
  // Rows that the tree does not see are not compared: what a tree costs does not grow with the data.
  const auto slopes = [&](int tree, std::span<const int> rows, std::span<const float> scores, std::span<float> descent,
                          std::span<float> curvature) {
    pairwise_slopes({speed, group, rows}, scores, seed_, tree, pairs);
    std::transform(pairs.gradient.begin(), pairs.gradient.end(), descent.begin(), std::negate<>());
    std::copy(pairs.curvature.begin(), pairs.curvature.end(), curvature.begin());
  };
  trees_ = boost_trees(x, {base.begin(), base.end()}, slopes, options, seed_);
  return static_cast<float>(pairs.loss);
}

TrainReport TreeModel::update(const Dataset& data, Effort effort) {
  TW_CHECK(data.features.columns == columns_);
  const std::vector<float> speed = relative_speed(data.seconds, data.group);
  const std::vector<float> base = data.base.empty() ? std::vector<float>(data.size(), 0.0f) : data.base;
  const std::vector<float> x = summarise(data.features);
  const MatrixView view{x.data(), data.size(), summary_columns(columns_)};
  TreeOptions options;
  if (effort == Effort::Full) options.rounds *= 4;
  TrainReport report{.from_scratch = true, .candidates = data.size()};
  if (objective_ == Objective::Rank) {
    report.loss = fit_order(view, speed, data.group, base, options);
  } else {
    report.loss = fit_speed(view, speed, base, options);
  }
  report.passes = static_cast<int>(trees_.size());
  return report;
}

std::string TreeModel::save() const {
  ModelWriter out(name(), columns_, objective_);
  out.put(seed_);
  out.put(static_cast<i64>(trees_.size()));
  for (const SymmetricTree& tree : trees_) out.put(tree);
  return out.take();
}

Status TreeModel::load(std::string_view bytes) {
  ModelReader in(bytes);
  TW_TRY_STATUS(in.header(name(), columns_));
  u64 seed = 0;
  i64 count = 0;
  if (!in.get(seed) || !in.get(count)) return damaged_model();
  std::vector<SymmetricTree> trees;
  SymmetricTree tree;
  while (static_cast<i64>(trees.size()) < count && in.get(tree)) trees.push_back(tree);
  if (static_cast<i64>(trees.size()) != count || !in.at_end()) return damaged_model();
  for (const SymmetricTree& each : trees) {
    const auto known = [&](i32 column) { return column >= 0 && column < summary_columns(columns_); };
    if (!std::all_of(each.column.begin(), each.column.end(), known)) return damaged_model();
  }
  seed_ = seed;
  trees_ = std::move(trees);
  return ok();
}

}  // namespace tw
