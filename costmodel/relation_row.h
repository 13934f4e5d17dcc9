// The row of the kind `relation`: AutoTVM's context relation features (NeurIPS 2018, section 3.2), one row of a fixed
// length for each program, whatever loops it has. With Z[k][i] the i-th property of loop k,
//   R_t(i, j) = max of Z[k][i] over the loops k with Z[k][j] < beta_t,  0 if there is none,
// for thresholds beta_t in equal steps of log2. Properties are on the scale of log2(x + 1).
//
// Pairs (i, j) are, for each of the buffers with the most bytes accessed: reuse and product of the extents around, by
// bytes touched; bytes touched, by executions inside. And of the loops alone: length, length of vectorized and of
// unrolled ones, by executions inside; length of parallel ones, by the product around.
#pragma once
#include <string>
#include <vector>

#include "costmodel/loop_contexts.h"

namespace tw {

int relation_columns();
// One name per column, all different: "B0.reuse_by_bytes.3" is t = 3 of such a pair.
const std::vector<std::string>& relation_column_names();

// Reuses its memory between calls: one per thread. The row depends on the program's structure and the target only.
class RelationRow {
 public:
  explicit RelationRow(const FeatureTarget& target) : contexts_(target) {}
  // Replaces `row` by the program's, relation_columns() finite floats.
  void extract(const Program& program, std::vector<float>& row);

 private:
  LoopContexts contexts_;
  std::vector<double> bytes_;  // accessed, of each buffer
  std::vector<u32> order_;     // of buffers
};

}  // namespace tw
