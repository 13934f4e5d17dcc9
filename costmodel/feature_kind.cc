#include "costmodel/feature_kind.h"

#include "costmodel/features.h"
#include "costmodel/loop_rows.h"
#include "costmodel/relation_row.h"
#include "costmodel/trace_rows.h"
#include "dsl/base/check.h"

namespace tw {

const char* name_of(FeatureKind kind) {
  constexpr const char* kNames[] = {"stores", "loops", "relation", "knobs", "tokens", "reference"};
  return kNames[static_cast<int>(kind)];
}

int columns_of(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::Stores:
      return feature_columns();
    case FeatureKind::Loops:
      return loop_columns();
    case FeatureKind::Relation:
      return relation_columns();
    case FeatureKind::Knobs:
      return knob_columns();
    case FeatureKind::Tokens:
      return token_columns();
    case FeatureKind::Reference:
      return kReferenceColumns;
  }
  check_failed("a feature kind has columns", __FILE__, __LINE__, "");
}

}  // namespace tw
