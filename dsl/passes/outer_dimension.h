// A buffer as often as something needs one of its own: one for each work-group, or one for each stage of a pipeline.
#pragma once
#include <vector>

#include "dsl/ir/program.h"

namespace tw {

// Like `buffer`, with a new outermost dimension. The caller may still change the copy.
inline Buffer* with_outer_dimension(Arena& arena, const Buffer* buffer, i64 extent) {
  std::vector<i64> shape{extent};
  shape.insert(shape.end(), buffer->shape.begin(), buffer->shape.end());
  std::vector<StrideRule> rules(buffer->stride_rules.begin(), buffer->stride_rules.end());
  for (StrideRule& rule : rules) ++rule.axis;
  Buffer* copy = arena.make<Buffer>(*buffer);
  copy->shape = arena.copy(shape);
  copy->stride_rules = arena.copy(rules);
  return copy;
}

}  // namespace tw
