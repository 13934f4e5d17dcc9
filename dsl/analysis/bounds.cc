#include "dsl/analysis/bounds.h"

#include <algorithm>

namespace tw {
namespace {

// False if a conjunct is not understood.
bool collect_bounds(const Expr* predicate, List<Bound>& out) {
  const Binary* both = as<Binary>(predicate);
  if (!both) return !predicate;
  if (both->op == BinaryOp::And) {
    bool first = collect_bounds(both->a, out);
    return collect_bounds(both->b, out) && first;
  }
  if (both->op < BinaryOp::Lt || both->op > BinaryOp::Ge) return false;
  bool less = both->op == BinaryOp::Lt || both->op == BinaryOp::Le;
  bool strict = both->op == BinaryOp::Lt || both->op == BinaryOp::Gt;
  Sum sum = less ? difference_of(both->a, both->b) : difference_of(both->b, both->a);
  i64 bound = -sum.constant - (strict ? 1 : 0);
  sum.constant = 0;
  if (sum.exact && !sum.terms.empty()) out.push_back({sum, bound});
  return sum.exact;
}

}  // namespace

std::optional<i64> factor_of(const Sum& sum, const Sum& part) {
  i64 factor = 0;
  for (const Sum::Term& term : part.terms) {
    auto same = std::find_if(sum.terms.begin(), sum.terms.end(),
                             [&](const Sum::Term& t) { return same_expr(t.atom, term.atom); });
    if (same == sum.terms.end() || same->coefficient % term.coefficient != 0) return std::nullopt;
    i64 here = same->coefficient / term.coefficient;
    if (here == 0 || (factor != 0 && here != factor)) return std::nullopt;
    factor = here;
  }
  return factor == 0 ? std::nullopt : std::optional(factor);
}

void remove_constants(Sum& sum, const VarRanges& ranges) {
  for (std::size_t i = sum.terms.size(); i-- > 0;) {
    std::optional<Interval> known = interval_of(sum.terms[i].atom, ranges);
    if (!known || known->min != known->max) continue;
    sum.add_constant(known->min, sum.terms[i].coefficient);
    sum.terms.erase(i);
  }
}

bool understands(const Expr* predicate) {
  List<Bound> ignored;
  return collect_bounds(predicate, ignored);
}

List<Bound> bounds_of(const Expr* predicate, const VarRanges& ranges) {
  List<Bound> out;
  collect_bounds(predicate, out);
  for (Bound& bound : out) {
    remove_constants(bound.sum, ranges);
    bound.bound -= bound.sum.constant;
    bound.sum.constant = 0;
  }
  std::erase_if(out, [](const Bound& bound) { return bound.sum.terms.empty(); });
  return out;
}

std::optional<Interval> bounded_interval(const Sum& sum, const VarRanges& ranges, const List<Bound>& bounds,
                                         std::size_t from) {
  std::optional<Interval> interval = interval_of(sum, ranges);
  if (!interval) return interval;
  for (std::size_t i = from; i < bounds.size(); ++i) {
    std::optional<i64> factor = factor_of(sum, bounds[i].sum);
    if (!factor) continue;
    Sum rest = sum;
    rest.add(bounds[i].sum, -*factor);
    std::optional<Interval> others = bounded_interval(rest, ranges, bounds, i + 1);
    if (!others) continue;
    if (*factor > 0)
      interval->max = std::min(interval->max, others->max + *factor * bounds[i].bound);
    else
      interval->min = std::max(interval->min, others->min + *factor * bounds[i].bound);
  }
  return interval;
}

bool stays_below(const Sum& sum, i64 limit, const VarRanges& ranges, const List<Bound>& bounds) {
  std::optional<Interval> known = interval_of(sum, ranges);
  if (known && known->max < limit) return true;
  Sum part = sum;
  part.constant = 0;
  for (const Bound& bound : bounds) {
    std::optional<i64> factor = factor_of(bound.sum, part);
    if (!factor || *factor < 0) continue;
    Sum rest = bound.sum;  // factor * part + rest <= bound
    rest.add(part, -*factor);
    std::optional<Interval> others = interval_of(rest, ranges);
    if (others && floor_div(bound.bound - others->min, *factor) + sum.constant < limit) return true;
  }
  return false;
}

bool is_dense(const Sum& sum, const VarRanges& ranges, const List<Bound>& bounds) {
  List<Sum::Term> terms(sum.terms.begin(), sum.terms.end());
  std::sort(terms.begin(), terms.end(),
            [](const Sum::Term& a, const Sum::Term& b) { return std::abs(a.coefficient) < std::abs(b.coefficient); });
  Sum smaller;
  for (const Sum::Term& term : terms) {
    Interval own = *interval_of(term.atom, ranges);
    Interval reach = *bounded_interval(smaller, ranges, bounds);
    if (own.max > own.min && std::abs(term.coefficient) > reach.max - reach.min + 1) return false;
    smaller.add_atom(term.atom, term.coefficient);
  }
  return true;
}

}  // namespace tw
