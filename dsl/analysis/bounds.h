// Bounds: what the predicate of a block says about sums of variables (`i_0 * 4 + i_1 < 10`), used to tighten intervals.
#pragma once
#include "dsl/analysis/sum.h"

namespace tw {

// A conjunct `sum <= bound`; sum has no constant.
struct Bound {
  Sum sum;
  i64 bound;
};

// Conjuncts of other forms are left out; variables with one value count as constants. predicate null = none.
std::vector<Bound> bounds_of(const Expr* predicate, const VarRanges& ranges);

// The interval of a sum, its upper end lowered by bounds on parts of it. Exponential in the bounds that apply: there
// are a few.
std::optional<Interval> bounded_interval(const Sum& sum, const VarRanges& ranges, const std::vector<Bound>& bounds,
                                         std::size_t from = 0);

}  // namespace tw
