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
List<Bound> bounds_of(const Expr* predicate, const VarRanges& ranges);

// Is every conjunct a comparison of sums, so that bounds_of leaves nothing out?
bool understands(const Expr* predicate);

// Terms whose atoms have one value in their ranges become part of the constant.
void remove_constants(Sum& sum, const VarRanges& ranges);
// If all terms of `part` occur in `sum`, multiplied with one factor: the factor, positive or negative.
std::optional<i64> factor_of(const Sum& sum, const Sum& part);

// The interval of a sum, its upper end lowered by bounds on parts of it. Exponential in the bounds that apply: there
// are a few.
std::optional<Interval> bounded_interval(const Sum& sum, const VarRanges& ranges, const List<Bound>& bounds,
                                         std::size_t from = 0);

// Is `sum < limit` proved, by the ranges or by one of the bounds, of which the sum is a part?
bool stays_below(const Sum& sum, i64 limit, const VarRanges& ranges, const List<Bound>& bounds);

// Are all values between the smallest and the largest taken? Sorted by coefficient, each step is at most one more than
// what the smaller ones reach. All atoms must have ranges.
bool is_dense(const Sum& sum, const VarRanges& ranges, const List<Bound>& bounds = {});

}  // namespace tw
