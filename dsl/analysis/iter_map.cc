#include "dsl/analysis/iter_map.h"

#include <algorithm>

#include "dsl/analysis/bounds.h"
#include "dsl/analysis/region.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

class Decoder {
 public:
  Decoder(const Expr* predicate, const VarRanges& ranges, const List<const Var*>& fixed)
      : bounds_(bounds_of(predicate, ranges)), ranges_(ranges), fixed_(fixed) {}

  // The value of `expr` is known: then so are the atoms of its sum, if each combination of them gives another value.
  void know(const Expr* expr) {
    Sum sum = sum_of(expr);
    if (!sum.exact) return;
    List<Sum::Term> terms(sum.terms.begin(), sum.terms.end());
    std::erase_if(terms, [&](const Sum::Term& term) { return is_fixed(term.atom) || has_one_value(term.atom); });
    std::sort(terms.begin(), terms.end(),
              [](const Sum::Term& a, const Sum::Term& b) { return std::abs(a.coefficient) < std::abs(b.coefficient); });
    Sum smaller;
    for (const Sum::Term& term : terms) {
      std::optional<Interval> reach = bounded_interval(smaller, ranges_, bounds_);
      if (!reach || std::abs(term.coefficient) <= reach->max - reach->min) return;
      smaller.add_atom(term.atom, term.coefficient);
    }
    for (const Sum::Term& term : terms) {
      if (std::optional<Digit> digit = digit_of(term.atom, ranges_)) digits_.push_back(*digit);
    }
  }
  // Sources of which all digits are known are known themselves; a source that is a sum makes its atoms known.
  void close() {
    for (std::size_t i = 0; i < digits_.size(); ++i) {
      const Expr* source = digits_[i].source;
      if (knows(source) || !all_digits_known(source)) continue;
      known_.push_back(source);
      if (!as<Var>(source)) know(source);
    }
  }
  bool knows(const Expr* source) const {
    return std::any_of(known_.begin(), known_.end(), [&](const Expr* e) { return same_expr(e, source); });
  }

 private:
  bool has_one_value(const Expr* atom) const {
    std::optional<Interval> known = interval_of(atom, ranges_);
    return known && known->min == known->max;
  }
  bool is_fixed(const Expr* atom) const {
    bool only_fixed = true;
    for_each<Var>(atom,
                  [&](const Var* var) { only_fixed &= std::find(fixed_.begin(), fixed_.end(), var) != fixed_.end(); });
    return only_fixed;
  }
  bool all_digits_known(const Expr* source) const {
    i64 below = 1, total = 1;  // all of source % below is known
    for (bool grown = true; grown;) {
      grown = false;
      for (const Digit& digit : digits_) {
        if (!same_expr(digit.source, source)) continue;
        total = digit.total;
        if (digit.lower > below || digit.lower * digit.count <= below) continue;
        below = digit.lower * digit.count;
        grown = true;
      }
    }
    return below >= total;
  }

  List<Bound> bounds_;
  const VarRanges& ranges_;
  const List<const Var*>& fixed_;
  List<Digit> digits_;
  List<const Expr*> known_;
};

}  // namespace

bool are_determined(const List<const Var*>& vars, const List<const Expr*>& exprs, const Expr* predicate,
                    const VarRanges& ranges, const List<const Var*>& fixed) {
  Decoder decoder(predicate, ranges, fixed);
  for (const Expr* expr : exprs) decoder.know(expr);
  decoder.close();
  return std::all_of(vars.begin(), vars.end(), [&](const Var* var) {
    const Interval* range = ranges.find(var);
    return decoder.knows(var) || (range && range->min == range->max);
  });
}

}  // namespace tw
