// Conditions as conjunctions, for the passes that move, decide and drop guards.
#pragma once
#include <vector>

#include "dsl/ir/build.h"

namespace tw {

using Conjunction = std::vector<const Expr*>;  // empty = true

// Appends the parts of `condition` that are joined by `and`.
void split_conjunction(const Expr* condition, Conjunction& out);
// Null if empty.
const Expr* join_conjunction(Arena& arena, const Conjunction& parts);

}  // namespace tw
