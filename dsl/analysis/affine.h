// Integer arithmetic over loop variables: linear forms, value ranges, proofs. Conservative: "unknown" is always a legal
// answer, also for sums that have more than kMaxTerms terms or whose coefficients overflow. Nothing here touches the
// heap.
#pragma once
#include "dsl/base/fixed_list.h"
#include "dsl/ir/build.h"

namespace tw {

// Python's // and %: rounding towards minus infinity. b != 0.
i64 floor_div(i64 a, i64 b);
i64 floor_mod(i64 a, i64 b);

// A closed interval of integers.
struct Interval {
  i64 min, max;
  bool operator==(const Interval&) const = default;
};

// What is known about variables: each lies in an interval. Small: lookup is linear.
class VarRanges {
 public:
  void set(const Var* var, Interval interval) { entries_.emplace_back(var, interval); }
  void set_extent(const Var* var, i64 extent) { set(var, {0, extent - 1}); }
  const Interval* find(const Var* var) const {  // the latest entry wins
    for (std::size_t i = entries_.size(); i-- > 0;) {
      if (entries_[i].first == var) return &entries_[i].second;
    }
    return nullptr;
  }
  List<const Var*> variables() const {
    List<const Var*> out;
    for (const auto& entry : entries_) out.push_back(entry.first);
    return out;
  }
  // Forget the entries added after size() was `count`.
  std::size_t size() const { return entries_.size(); }
  void shrink(std::size_t count) { entries_.resize(count, {nullptr, {0, 0}}); }

 private:
  List<std::pair<const Var*, Interval>> entries_;
};

inline constexpr std::size_t kMaxTerms = 16;

// constant + sum of coefficient * variable; no zero coefficients, each variable once, in order of first appearance.
struct LinearForm {
  i64 constant = 0;
  FixedList<std::pair<const Var*, i64>, kMaxTerms> terms;
  i64 coefficient(const Var* var) const;  // 0 if it does not occur
};
// The expression as a linear form, or nothing if it is none (// and % of non-multiples, min, max, loads ...).
std::optional<LinearForm> linear_form(const Expr* expr);
const Expr* to_expr(Arena& arena, const LinearForm& form);

// Bounds of an I64 or bool expression; nothing if a variable has no range or an operation is not understood.
std::optional<Interval> interval_of(const Expr* expr, const VarRanges& ranges);

// true / false if the condition always / never holds in the ranges, nothing if neither is proved.
std::optional<bool> decide(const Expr* condition, const VarRanges& ranges);

// A largest divisor that is proved for every value of the expression (1 if nothing is known, 0 for the constant 0).
i64 known_divisor(const Expr* expr);

// Adds to `ranges` what `condition` (or its negation, for holds = false) says about the variables in it. Understands
// conjunctions of linear comparisons; the rest is ignored. Returns false if no value of some variable is left.
bool assume(const Expr* condition, bool holds, VarRanges& ranges);

// Are the expressions equal node by node?
bool same_expr(const Expr* a, const Expr* b);
bool same_exprs(Array<const Expr*> a, Array<const Expr*> b);  // as many, and each the same

}  // namespace tw
