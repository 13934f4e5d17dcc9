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

struct Sums {
  float descent = 0, curvature = 0;
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
    rows_.clear();
    for (int row : rows) rows_.push_back({row, 0, {descent[row], curvature[row]}});
    sums_.resize(asked.size() * kColumnSums);
    SymmetricTree tree;
    for (int level = 0; level < SymmetricTree::depth; ++level) {
      sum_bins(asked, level);
      const Question best = best_question(asked, 1 << level);
      const BinnedColumn& column = columns_[best.at];
      tree.column[level] = column.column;
      tree.threshold[level] = column.threshold[best.bin];
      for (Row& row : rows_) row.leaf |= (column.bin[row.number] > best.bin) << level;
    }
    fill_leaves(tree);
    return tree;
  }

 private:
  struct Row {
    int number, leaf;
    Sums own;
  };
  // Sums of an asked column lie by bin, then by leaf, bin_count x (leaves of the level).
  static constexpr std::size_t kColumnSums = std::size_t{bin_count} * max_leaves / 2;

  // The last question parted each leaf of the level before in two. The sums of the side with fewer rows are taken from
  // them; those of the other side are what is left.
  void sum_bins(const std::vector<int>& asked, int level) {
    const int leaves = 1 << level, parents = leaves / 2;
    const auto is_above = [&](const Row& row) { return row.leaf >= parents; };
    const auto above = std::count_if(rows_.begin(), rows_.end(), is_above);
    const bool sums_above = level == 0 || 2 * above <= static_cast<std::ptrdiff_t>(rows_.size());
    summed_.clear();
    std::copy_if(rows_.begin(), rows_.end(), std::back_inserter(summed_),
                 [&](const Row& row) { return is_above(row) == sums_above; });
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const BinnedColumn& column = columns_[asked[i]];
      Sums* sums = sums_.data() + i * kColumnSums;
      const int bins = static_cast<int>(column.threshold.size()) + 1;
      std::copy_n(sums, bins * parents, parent_.begin());
      std::fill_n(sums, bins * leaves, Sums{});
      for (const Row& row : summed_) {
        Sums& sum = sums[(column.bin[row.number] << level) + row.leaf];
        sum.descent += row.own.descent;
        sum.curvature += row.own.curvature;
      }
      for (int b = 0; b < bins && parents > 0; ++b)
        subtract(&parent_[b * parents], sums + b * leaves + (sums_above ? parents : 0),
                 sums + b * leaves + (sums_above ? 0 : parents), parents);
    }
  }

  static void subtract(const Sums* __restrict all, const Sums* __restrict part, Sums* __restrict rest, int count) {
    for (int i = 0; i < count; ++i) rest[i] = {all[i].descent - part[i].descent, all[i].curvature - part[i].curvature};
  }

  // The question that lowers the squared error most. It is asked even if it gains nothing by
  // itself: columns that matter only together gain at the second question.
  Question best_question(const std::vector<int>& asked, int leaves) {
    std::array<Sums, max_leaves / 2> all{};
    for (const Row& row : rows_) {
      all[row.leaf].descent += row.own.descent;
      all[row.leaf].curvature += row.own.curvature;
    }
    Question best;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      std::array<Sums, max_leaves / 2> left{};
      const Sums* sums = sums_.data() + i * kColumnSums;
      for (int b = 0; b < static_cast<int>(columns_[asked[i]].threshold.size()); ++b, sums += leaves) {
        const float gain = gain_of(sums, left, all, leaves);
        if (gain > best.gain) best = {gain, asked[i], b};
      }
    }
    return best;
  }

  // What cutting every leaf after a bin gains, more than a constant. `left`: the sums up to the bin before, to which
  // its own are added.
  float gain_of(const Sums* bin, std::array<Sums, max_leaves / 2>& left, const std::array<Sums, max_leaves / 2>& all,
                int leaves) const {
    float gain = 0;
    for (int l = 0; l < leaves; ++l) {
      left[l].descent += bin[l].descent;
      left[l].curvature += bin[l].curvature;
      const float right = all[l].descent - left[l].descent;
      const float left_weight = std::max(left[l].curvature, 0.0f) + l2_;
      const float right_weight = std::max(all[l].curvature - left[l].curvature, 0.0f) + l2_;
      gain += (left[l].descent * left[l].descent * right_weight + right * right * left_weight) /
              (left_weight * right_weight);
    }
    return gain;
  }

  void fill_leaves(SymmetricTree& tree) {
    std::array<double, max_leaves> sum{}, mass{};
    for (const Row& row : rows_) {
      sum[row.leaf] += row.own.descent;
      mass[row.leaf] += row.own.curvature;
    }
    for (int l = 0; l < max_leaves; ++l) tree.leaf[l] = static_cast<float>(sum[l] / (mass[l] + l2_));
  }

  const std::vector<BinnedColumn>& columns_;
  float l2_;
  std::vector<Row> rows_, summed_;
  std::vector<Sums> sums_;
  std::array<Sums, kColumnSums / 2> parent_;
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
    slopes(round, rows, scores, descent, curvature);
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
  const auto slopes = [&](int, std::span<const int>, std::span<const float> error, std::span<float> descent,
                          std::span<float> curvature) {
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
