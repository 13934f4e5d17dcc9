// Sum: an integer expression as constant + sum of coefficient * atom, where an atom is whatever is not itself a sum (a
// variable, `f // 3`, a load ...). The common base of affine.cc and simplify.cc; others use LinearForm.
#pragma once
#include "dsl/analysis/affine.h"

namespace tw {

struct Sum {
  struct Term {
    const Expr* atom;
    i64 coefficient;
  };
  bool exact = true;  // false: too many terms or an overflow, the rest means nothing
  i64 constant = 0;
  FixedList<Term, kMaxTerms> terms;  // no zero coefficients, no two equal atoms, in order of first appearance

  void add_constant(i64 value, i64 factor = 1);
  void add_atom(const Expr* atom, i64 coefficient);
  void add(const Sum& other, i64 factor = 1);
  void collect(const Expr* expr, i64 factor = 1);  // adds factor * expr, taking sums apart
  bool is_atom(const Expr* atom) const;            // exactly 1 * atom?
};

Sum sum_of(const Expr* expr);
Sum difference_of(const Expr* a, const Expr* b);
const Expr* to_expr(Arena& arena, const Sum& sum);
std::optional<Interval> interval_of(const Sum& sum, const VarRanges& ranges);
// For a < b, a <= b, a > b, a >= b of I64: the sum that is negative exactly where the comparison holds. Else nothing.
std::optional<Sum> negative_where(const Expr* comparison);

}  // namespace tw
