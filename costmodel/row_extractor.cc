#include "costmodel/row_extractor.h"

#include <algorithm>

#include "costmodel/trace_rows.h"

namespace tw {
namespace {

// Keeps the first columns of each row.
void keep_columns(std::vector<float>& rows, std::size_t columns, std::size_t kept) {
  auto to = rows.begin();
  for (std::size_t from = 0; from < rows.size(); from += columns) to = std::copy_n(rows.begin() + from, kept, to);
  rows.erase(to, rows.end());
}

}  // namespace

RowExtractor::RowExtractor(FeatureKind kind, const FeatureTarget& target)
    : kind_(kind), stores_(target), loops_(target), relation_(target), draft_(target) {}

void RowExtractor::extract(const Program& program, const Trace& trace, std::span<const Decision> decisions,
                           std::vector<float>& rows) {
  if (kind_ == FeatureKind::Stores || kind_ == FeatureKind::Reference) {  // with the draft of the same pass
    stores_.extract(program, rows);
    draft_seconds_ = stores_.draft_seconds();
    if (kind_ == FeatureKind::Reference) keep_columns(rows, feature_columns(), kReferenceColumns);
    return;
  }
  draft_seconds_ = draft_.seconds(program);
  if (kind_ == FeatureKind::Loops) loops_.extract(program, rows);
  if (kind_ == FeatureKind::Relation) relation_.extract(program, rows);
  if (!needs_program(kind_)) extract_trace_rows(kind_, trace, decisions, rows);
}

}  // namespace tw
