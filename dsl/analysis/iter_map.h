// Iter maps: can the values of variables be told from the values of expressions over them? Asked where a block must not
// run twice for the same point. Understands what splits, fusions and reorderings make of bindings; elsewhere the answer
// is "no".
#pragma once
#include "dsl/analysis/affine.h"

namespace tw {

// While the variables in `fixed` keep their values: do equal values of all `exprs` imply equal values of all `vars`,
// where the predicate (null = true) holds?
bool are_determined(const List<const Var*>& vars, const List<const Expr*>& exprs, const Expr* predicate,
                    const VarRanges& ranges, const List<const Var*>& fixed = {});

}  // namespace tw
