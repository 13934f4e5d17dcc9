#include "dsl/analysis/bounds.h"

#include <algorithm>

namespace tw {
namespace {

void collect_bounds(const Expr* predicate, std::vector<Bound>& out) {
  const Binary* both = as<Binary>(predicate);
  if (!both) return;
  if (both->op == BinaryOp::And) {
    collect_bounds(both->a, out);
    collect_bounds(both->b, out);
  } else if (both->op == BinaryOp::Lt || both->op == BinaryOp::Le) {
    Sum sum = difference_of(both->a, both->b);
    i64 bound = -sum.constant - (both->op == BinaryOp::Lt ? 1 : 0);
    sum.constant = 0;
    if (sum.exact && !sum.terms.empty()) out.push_back({sum, bound});
  }
}

// The factor if `part` occurs in `sum` as a whole, with one positive factor.
std::optional<i64> factor_of(const Sum& sum, const Sum& part) {
  i64 factor = 0;
  for (const Sum::Term& term : part.terms) {
    auto same = std::find_if(sum.terms.begin(), sum.terms.end(),
                             [&](const Sum::Term& t) { return same_expr(t.atom, term.atom); });
    if (same == sum.terms.end() || same->coefficient % term.coefficient != 0) return std::nullopt;
    i64 here = same->coefficient / term.coefficient;
    if (here <= 0 || (factor != 0 && here != factor)) return std::nullopt;
    factor = here;
  }
  return factor == 0 ? std::nullopt : std::optional(factor);
}

}  // namespace

std::vector<Bound> bounds_of(const Expr* predicate, const VarRanges& ranges) {
  std::vector<Bound> out;
  collect_bounds(predicate, out);
  for (Bound& bound : out) {
    for (std::size_t i = bound.sum.terms.size(); i-- > 0;) {
      std::optional<Interval> known = interval_of(bound.sum.terms[i].atom, ranges);
      if (!known || known->min != known->max) continue;
      bound.bound -= known->min * bound.sum.terms[i].coefficient;
      bound.sum.terms.erase(i);
    }
  }
  std::erase_if(out, [](const Bound& bound) { return bound.sum.terms.empty(); });
  return out;
}

std::optional<Interval> bounded_interval(const Sum& sum, const VarRanges& ranges, const std::vector<Bound>& bounds,
                                         std::size_t from) {
  std::optional<Interval> interval = interval_of(sum, ranges);
  if (!interval) return interval;
  for (std::size_t i = from; i < bounds.size(); ++i) {
    std::optional<i64> factor = factor_of(sum, bounds[i].sum);
    if (!factor) continue;
    Sum rest = sum;
    rest.add(bounds[i].sum, -*factor);
    std::optional<Interval> others = bounded_interval(rest, ranges, bounds, i + 1);
    if (others) interval->max = std::min(interval->max, others->max + *factor * bounds[i].bound);
  }
  return interval;
}

}  // namespace tw
