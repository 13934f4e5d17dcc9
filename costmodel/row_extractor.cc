#include "costmodel/row_extractor.h"

#include "costmodel/trace_rows.h"

namespace tw {

RowExtractor::RowExtractor(FeatureKind kind, const FeatureTarget& target)
    : kind_(kind), stores_(target), loops_(target), relation_(target), draft_(target) {}

void RowExtractor::extract(const Program& program, const Trace& trace, std::span<const Decision> decisions,
                           std::vector<float>& rows) {
  if (kind_ == FeatureKind::Stores) {  // with the draft of the same pass
    stores_.extract(program, rows);
    draft_seconds_ = stores_.draft_seconds();
    return;
  }
  draft_seconds_ = draft_.seconds(program);
  if (kind_ == FeatureKind::Loops) loops_.extract(program, rows);
  if (kind_ == FeatureKind::Relation) relation_.extract(program, rows);
  if (!needs_program(kind_)) extract_trace_rows(kind_, trace, decisions, rows);
}

}  // namespace tw
