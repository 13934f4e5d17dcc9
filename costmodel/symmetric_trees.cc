#include "costmodel/symmetric_trees.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "dsl/base/check.h"
#include "dsl/base/rng.h"

namespace tw {
namespace {

constexpr int bin_count = 32;
constexpr int max_leaves = 1 << SymmetricTree::depth;

// A column cut into at most bin_count bins: value > threshold[b] exactly if bin > b.
struct BinnedColumn {
  int column;
  std::vector<float> threshold;
  std::vector<u8> bin;  // per row
};

struct Question {
  float gain = -std::numeric_limits<float>::infinity();
  int at = 0;  // index into the binned columns
  int bin = 0;
};

// Thresholds halfway between values, about equally many rows in each bin; none for a constant
// column.
std::vector<float> thresholds_of(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  const std::size_t all = values.size();
  std::vector<float> distinct = values;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<float> out;
  if (distinct.size() <= bin_count) {
    for (std::size_t i = 1; i < distinct.size(); ++i) out.push_back(std::midpoint(distinct[i - 1], distinct[i]));
  } else {
    for (int b = 1; b < bin_count; ++b) {
      const float low = values[all * b / bin_count];
      const auto above = std::upper_bound(distinct.begin(), distinct.end(), low);
      if (above != distinct.end()) out.push_back(std::midpoint(low, *above));
    }
  }
  // Neighbouring floats have no midpoint between them: equal thresholds and those that cut nothing
  // off go.
  out.erase(std::unique(out.begin(), out.end()), out.end());
  while (!out.empty() && out.back() >= values.back()) out.pop_back();
  return out;
}

std::vector<BinnedColumn> bin_columns(MatrixView x) {
  std::vector<BinnedColumn> out;
  std::vector<float> values(x.rows);
  for (int c = 0; c < x.columns; ++c) {
    for (int r = 0; r < x.rows; ++r) values[r] = x.values[static_cast<std::size_t>(r) * x.columns + c];
    BinnedColumn binned{.column = c, .threshold = thresholds_of(values), .bin = std::vector<u8>(x.rows)};
    if (binned.threshold.empty()) continue;
    for (int r = 0; r < x.rows; ++r) {
      const auto& t = binned.threshold;
      binned.bin[r] = static_cast<u8>(std::lower_bound(t.begin(), t.end(), values[r]) - t.begin());
    }
    out.push_back(std::move(binned));
  }
  return out;
}

// `count` of 0 .. n - 1 without repetition, rising.
std::vector<int> draw(int n, int count, Rng& rng) {
  std::vector<int> all(n);
  std::iota(all.begin(), all.end(), 0);
  for (int i = 0; i < count; ++i) std::swap(all[i], all[i + rng.below(n - i)]);
  all.resize(count);
  std::sort(all.begin(), all.end());
  return all;
}

// One tree at a time: which leaf each drawn row is in, and the sums that decide the next question.
class TreeGrower {
 public:
  TreeGrower(const std::vector<BinnedColumn>& columns, float l2) : columns_(columns), l2_(l2) {}

  SymmetricTree grow(std::span<const float> descent, std::span<const float> curvature, const std::vector<int>& rows,
                     const std::vector<int>& asked) {
    rows_ = &rows;
    leaf_.assign(rows.size(), 0);
    gradient_.resize(rows.size());
    mass_.resize(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      mass_[i] = curvature[rows[i]];
      gradient_[i] = descent[rows[i]];
    }
    SymmetricTree tree;
    for (int level = 0; level < SymmetricTree::depth; ++level) {
      const Question best = best_question(asked, 1 << level);
      const BinnedColumn& column = columns_[best.at];
      tree.column[level] = column.column;
      tree.threshold[level] = column.threshold[best.bin];
      for (std::size_t i = 0; i < rows.size(); ++i) leaf_[i] |= (column.bin[rows[i]] > best.bin) << level;
    }
    fill_leaves(tree);
    return tree;
  }

 private:
  // The question that lowers the squared error most. It is asked even if it gains nothing by
  // itself: columns that matter only together gain at the second question.
  Question best_question(const std::vector<int>& asked, int leaves) {
    Question best;
    for (int at : asked) {
      const BinnedColumn& column = columns_[at];
      sum_bins(column, leaves);
      const std::array<float, bin_count> gain = gains(leaves);
      for (int b = 0; b < static_cast<int>(column.threshold.size()); ++b) {
        if (gain[b] > best.gain) best = {gain[b], at, b};
      }
    }
    return best;
  }

  void sum_bins(const BinnedColumn& column, int leaves) {
    std::fill_n(&sum_[0][0], leaves * bin_count, 0.0f);
    std::fill_n(&total_[0][0], leaves * bin_count, 0.0f);
    for (std::size_t i = 0; i < rows_->size(); ++i) {
      const int bin = column.bin[(*rows_)[i]];
      sum_[leaf_[i]][bin] += gradient_[i];
      total_[leaf_[i]][bin] += mass_[i];
    }
  }

  // Per bin: what cutting every leaf after that bin gains.
  std::array<float, bin_count> gains(int leaves) {
    std::array<float, bin_count> gain{};
    for (int l = 0; l < leaves; ++l) {
      float* sum = sum_[l].data();
      float* total = total_[l].data();
      for (int b = 1; b < bin_count; ++b) {
        sum[b] += sum[b - 1];
        total[b] += total[b - 1];
      }
      const float all = sum[bin_count - 1], mass = total[bin_count - 1];
      const float before = all * all / (mass + l2_);
      for (int b = 0; b < bin_count; ++b) {
        const float right = all - sum[b], right_mass = std::max(mass - total[b], 0.0f);
        gain[b] += sum[b] * sum[b] / (total[b] + l2_) + right * right / (right_mass + l2_) - before;
      }
    }
    return gain;
  }

  void fill_leaves(SymmetricTree& tree) {
    std::array<double, max_leaves> sum{}, mass{};
    for (std::size_t i = 0; i < rows_->size(); ++i) {
      sum[leaf_[i]] += gradient_[i];
      mass[leaf_[i]] += mass_[i];
    }
    for (int l = 0; l < max_leaves; ++l) tree.leaf[l] = static_cast<float>(sum[l] / (mass[l] + l2_));
  }

  const std::vector<BinnedColumn>& columns_;
  float l2_;
  const std::vector<int>* rows_ = nullptr;
  std::vector<u8> leaf_;  // per drawn row, as are the next two
  std::vector<float> gradient_, mass_;
  std::array<std::array<float, bin_count>, max_leaves / 2> sum_, total_;
};

float evaluate(const SymmetricTree& tree, const float* row) {
  int leaf = 0;
  for (int d = 0; d < SymmetricTree::depth; ++d) leaf |= (row[tree.column[d]] > tree.threshold[d]) << d;
  return tree.leaf[leaf];
}

}  // namespace

std::vector<SymmetricTree> boost_trees(MatrixView x, std::vector<float> scores, const LossSlopes& slopes,
                                       const TreeOptions& options, u64 seed) {
  TW_CHECK(scores.size() == static_cast<std::size_t>(x.rows));
  const std::vector<BinnedColumn> columns = bin_columns(x);
  if (columns.empty()) return {};
  TreeGrower grower(columns, options.l2);
  std::vector<float> descent(x.rows), curvature(x.rows);
  std::vector<SymmetricTree> trees;
  const int column_draws = std::max(1, static_cast<int>(columns.size() * options.column_share));
  for (int round = 0; round < options.rounds; ++round) {
    Rng rng(seed, static_cast<u64>(round));
    const std::vector<int> asked = draw(static_cast<int>(columns.size()), column_draws, rng);
    const std::vector<int> rows = draw(x.rows, std::min(x.rows, options.row_limit), rng);
    slopes(round, scores, descent, curvature);
    SymmetricTree tree = grower.grow(descent, curvature, rows, asked);
    for (float& value : tree.leaf) value *= options.rate;
    for (int r = 0; r < x.rows; ++r) {
      scores[r] += evaluate(tree, x.values + static_cast<std::size_t>(r) * x.columns);
    }
    trees.push_back(tree);
  }
  return trees;
}

std::vector<SymmetricTree> fit_trees(MatrixView x, std::span<const float> target, std::span<const float> weight,
                                     const TreeOptions& options, u64 seed) {
  TW_CHECK(target.size() == static_cast<std::size_t>(x.rows) && weight.size() == target.size());
  std::vector<float> errors(target.size());  // in place of scores: what the trees add is compared with 0
  std::transform(target.begin(), target.end(), errors.begin(), std::negate<>());
  const auto slopes = [&](int, std::span<const float> error, std::span<float> descent, std::span<float> curvature) {
    for (std::size_t r = 0; r < error.size(); ++r) {
      descent[r] = -error[r] * weight[r];
      curvature[r] = weight[r];
    }
  };
  return boost_trees(x, std::move(errors), slopes, options, seed);
}

std::vector<float> evaluate_trees(std::span<const SymmetricTree> trees, MatrixView x) {
  std::vector<float> out(x.rows, 0.0f);
  for (int r = 0; r < x.rows; ++r) {
    const float* row = x.values + static_cast<std::size_t>(r) * x.columns;
    for (const SymmetricTree& tree : trees) out[r] += evaluate(tree, row);
  }
  return out;
}

}  // namespace tw
