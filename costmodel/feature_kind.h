// Feature kinds: what the rows are that a cost model sees of a candidate. Each model wants one (make_model.h);
// RowExtractor makes the rows.
#pragma once
#include "dsl/base/arena.h"

namespace tw {

enum class FeatureKind : u8 {
  Stores,    // one row for each store (features.h)
  Loops,     // one row for each node of the loop tree (loop_rows.h)
  Relation,  // one row of a fixed length: how properties of loops go together (relation_row.h)
  Knobs,     // one row of a fixed length: the decisions of the trace (trace_rows.h)
  Tokens,    // one row for each instruction of the trace (trace_rows.h)
  Reference  // of Stores what MetaSchedule has, kReferenceColumns
};
inline constexpr FeatureKind kFeatureKinds[] = {FeatureKind::Stores, FeatureKind::Loops,  FeatureKind::Relation,
                                                FeatureKind::Knobs,  FeatureKind::Tokens, FeatureKind::Reference};

const char* name_of(FeatureKind kind);  // "stores", "loops", "relation", "knobs", "tokens", "reference"
// False: the rows follow from the trace and its decisions, without replaying it.
constexpr bool needs_program(FeatureKind kind) { return kind != FeatureKind::Knobs && kind != FeatureKind::Tokens; }
// Numbers in a row.
int columns_of(FeatureKind kind);

}  // namespace tw
