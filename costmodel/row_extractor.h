// RowExtractor: the rows of one kind that a candidate has, for cost models. The one place that turns candidates into
// numbers, for the search and for data out of databases.
#pragma once
#include <span>
#include <vector>

#include "costmodel/draft_model.h"
#include "costmodel/feature_kind.h"
#include "costmodel/features.h"
#include "costmodel/loop_rows.h"
#include "costmodel/relation_row.h"
#include "dsl/schedule/trace.h"

namespace tw {

// Reuses its memory between calls: one per thread.
class RowExtractor {
 public:
  RowExtractor(FeatureKind kind, const FeatureTarget& target);
  FeatureKind kind() const { return kind_; }
  // Replaces `rows` by the candidate's, columns_of(kind) floats each, all finite, and makes its draft. `program` is
  // what the trace with these decisions gives; the rows of knobs and tokens depend on trace and decisions only, those
  // of other kinds on the program and the target only.
  void extract(const Program& program, const Trace& trace, std::span<const Decision> decisions,
               std::vector<float>& rows);
  // What the draft model says of the program that was extracted last.
  double draft_seconds() const { return draft_seconds_; }

 private:
  FeatureKind kind_;
  FeatureExtractor stores_;
  LoopRows loops_;
  RelationRow relation_;
  DraftModel draft_;
  double draft_seconds_ = 0;
};

}  // namespace tw
