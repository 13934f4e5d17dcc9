// Rewrites integer expressions to equal, simpler ones: linear forms are collected, (a * n + b) // n and % n with 0 <= b
// < n are resolved, proved comparisons become constants. Every rule is proved in the tests by exhaustion over small
// ranges. Float arithmetic is never touched, only the indices and conditions inside it.
#pragma once
#include "dsl/analysis/affine.h"
#include "dsl/ir/nodes.h"

namespace tw {

// Returns the same pointer if nothing got simpler.
const Expr* simplify(Arena& arena, const Expr* expr, const VarRanges& ranges);
// All expressions of a statement, with the ranges of the loops and iters inside it and what the conditions around say;
// branches that are never taken go (null if nothing is left), loops of extent 1 stay.
const Stmt* simplify(Arena& arena, const Stmt* stmt, const VarRanges& ranges = {});

}  // namespace tw
