// Boosted symmetric trees on a plain matrix: every level of a tree asks one question of all rows,
// so a tree is six questions and a table of 64 values. Quick to fit on a few hundred rows, hard to
// overfit, and quick to evaluate. Used by TreeModel; knows nothing of candidates. After CatBoost
// (Prokhorenkova et al., arXiv 1706.09516, section 4), without its ordering.
#pragma once
#include <array>
#include <functional>
#include <span>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

struct SymmetricTree {
  static constexpr int depth = 6;
  // The answer to question d is bit d of the row's leaf: row[column[d]] > threshold[d].
  std::array<std::int32_t, depth> column{};
  std::array<float, depth> threshold{};
  std::array<float, 1 << depth> leaf{};
};

struct TreeOptions {
  int rounds = 150;           // trees
  float rate = 0.1f;          // share of each tree's correction that is added
  float column_share = 0.4f;  // columns that a tree may ask about, drawn anew per tree
  int row_limit = 2000;       // rows that a tree sees, drawn anew per tree if there are more
  float l2 = 1.0f;            // added to the weight (or second derivative) of every leaf
};

// A row-major matrix that somebody else owns.
struct MatrixView {
  const float* values;
  int rows, columns;
};

// Derivatives of a loss by the scores of rows. `rows`: those that the next tree sees, in ascending order; no others are
// needed. `scores`: of each row, after `tree` trees. Writes an entry per row: into `descent` the negative first
// derivative, into `curvature` the second.
using LossSlopes = std::function<void(int tree, std::span<const int> rows, std::span<const float> scores,
                                      std::span<float> descent, std::span<float> curvature)>;

// Trees whose sum, added to `scores`, lowers a loss: each is a Newton step. Finite values only.
std::vector<SymmetricTree> boost_trees(MatrixView x, std::vector<float> scores, const LossSlopes& slopes,
                                       const TreeOptions& options, u64 seed);

// Trees whose sum fits `target` with least squares, weighted by `weight` (one entry per row, > 0).
// Finite values only.
std::vector<SymmetricTree> fit_trees(MatrixView x, std::span<const float> target, std::span<const float> weight,
                                     const TreeOptions& options, u64 seed);

// The sum of the trees for every row.
std::vector<float> evaluate_trees(std::span<const SymmetricTree> trees, MatrixView x);

}  // namespace tw
