#include "dsl/analysis/iter_map.h"

#include <algorithm>
#include <limits>

#include "dsl/analysis/bounds.h"
#include "dsl/analysis/region.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

bool same_sum(const Sum& a, const Sum& b) {
  if (!a.exact || !b.exact || a.constant != b.constant || a.terms.size() != b.terms.size()) return false;
  return std::all_of(a.terms.begin(), a.terms.end(), [&](const Sum::Term& x) {
    return std::any_of(b.terms.begin(), b.terms.end(),
                       [&](const Sum::Term& y) { return x.coefficient == y.coefficient && same_expr(x.atom, y.atom); });
  });
}

// A digit of a sum: (source // lower) % count, where source takes values in [0, total).
struct Place {
  Sum source;
  i64 lower, count, total;
};

// x // c of a term `1 * (x // c)`, if the sum has one.
const Binary* plain_quotient(const Sum& sum) {
  for (const Sum::Term& term : sum.terms) {
    const Binary* quotient = as<Binary>(term.atom);
    std::optional<i64> c = quotient && quotient->op == BinaryOp::FloorDiv ? constant_of(quotient->b) : std::nullopt;
    if (term.coefficient == 1 && c && *c > 0) return quotient;
  }
  return nullptr;
}

// The simplifier makes (8 f + t // 32) // 49 of (256 f + t) // 1568: again a digit of the sum in which t is whole.
Place place_of(const Digit& digit) {
  Place place{sum_of(digit.source), digit.lower, digit.count, digit.total};
  while (const Binary* quotient = plain_quotient(place.source)) {
    i64 c = *constant_of(quotient->b), total = 0;
    Sum whole;
    whole.add(place.source, c);
    whole.add_atom(quotient, -c);
    whole.add(sum_of(quotient->a));
    if (!whole.exact || __builtin_mul_overflow(place.total, c, &total)) break;
    place = {whole, place.lower * c, place.count, total};
  }
  return place;
}

// c of `whole` = c * part + rest with 0 <= rest < c: then part is whole // c.
std::optional<i64> quotient_by(const Sum& part, const Sum& whole, const VarRanges& ranges) {
  if (part.terms.empty() || part.terms.size() >= whole.terms.size()) return std::nullopt;
  for (const Sum::Term& term : whole.terms) {
    if (!same_expr(term.atom, part.terms[0].atom) || term.coefficient % part.terms[0].coefficient != 0) continue;
    i64 c = term.coefficient / part.terms[0].coefficient;
    Sum rest = whole;
    rest.add(part, -c);
    std::optional<Interval> reach = rest.exact && c > 1 ? interval_of(rest, ranges) : std::nullopt;
    if (reach && reach->min >= 0 && reach->max < c) return c;
  }
  return std::nullopt;
}

class Decoder {
 public:
  Decoder(const Expr* predicate, const VarRanges& ranges, const List<const Var*>& fixed)
      : bounds_(bounds_of(predicate, ranges)), ranges_(ranges), fixed_(fixed) {}

  // The value of a sum is known: then so are its atoms, if each combination of them gives another value.
  void know(const Sum& sum) {
    if (!sum.exact) return;
    List<Sum::Term> terms(sum.terms.begin(), sum.terms.end());
    std::erase_if(terms, [&](const Sum::Term& term) { return is_same(term.atom); });
    std::sort(terms.begin(), terms.end(),
              [](const Sum::Term& a, const Sum::Term& b) { return std::abs(a.coefficient) < std::abs(b.coefficient); });
    Sum smaller;
    for (const Sum::Term& term : terms) {
      std::optional<Interval> reach = bounded_interval(smaller, ranges_, bounds_);
      if (!reach || std::abs(term.coefficient) <= reach->max - reach->min) return;
      smaller.add_atom(term.atom, term.coefficient);
    }
    for (const Sum::Term& term : terms) {
      std::optional<Digit> digit = digit_of(term.atom, ranges_);
      if (!digit) continue;
      Place place = place_of(*digit);
      places_.push_back({source_of(place.source), place.lower, place.count, place.total});
    }
  }
  // Sources of which all digits are known are known themselves; a source that is a sum makes its atoms known.
  void close() {
    see_quotients();
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t i = 0; i < places_.size(); ++i) {
        std::size_t source = places_[i].source;
        if (sources_[source].is_known ||
            known_below(source, kDepth) < std::min(places_[i].total, values_of(sources_[source].sum)))
          continue;
        sources_[source].is_known = true;
        grown = true;
        const Sum sum = sources_[source].sum;
        if (!is_variable(sum)) know(sum);
      }
    }
  }
  bool knows(const Sum& sum) const {
    std::size_t source = find(sum);
    return source < sources_.size() && sources_[source].is_known;
  }

 private:
  static constexpr int kDepth = 3;  // of sums of digits of sums

  // What places are digits of, each sum once.
  struct Source {
    Sum sum;
    bool is_known = false;
  };
  // A place whose source is sources_[source], and whose value is known.
  struct KnownDigit {
    std::size_t source;
    i64 lower, count, total;
  };
  // sources_.size() if it is none.
  std::size_t find(const Sum& sum) const {
    auto same = [&](const Source& source) { return same_sum(source.sum, sum); };
    return static_cast<std::size_t>(std::find_if(sources_.begin(), sources_.end(), same) - sources_.begin());
  }
  std::size_t source_of(const Sum& sum) {
    std::size_t source = find(sum);
    if (source == sources_.size()) sources_.push_back({sum});
    return source;
  }

  // The simplifier makes g // 294 of (256 g + t) // 75264, and leaves the other digits of 256 g + t: it is one of them.
  void see_quotients() {
    const List<KnownDigit> places = places_;
    for (const KnownDigit& part : places) {
      for (const KnownDigit& whole : places) {
        std::optional<i64> c = quotient_by(sources_[part.source].sum, sources_[whole.source].sum, ranges_);
        i64 total = 0;
        if (!c || __builtin_mul_overflow(part.total, *c, &total)) continue;
        places_.push_back({whole.source, part.lower * *c, part.count, total});
        break;
      }
    }
  }
  static bool is_variable(const Sum& sum) {
    return sum.constant == 0 && sum.terms.size() == 1 && sum.terms[0].coefficient == 1 && as<Var>(sum.terms[0].atom);
  }
  // How many values the sum may take while the fixed variables keep theirs; more than there are if nothing is known.
  i64 values_of(const Sum& sum) const {
    Sum moving;
    for (const Sum::Term& term : sum.terms) {
      if (!is_same(term.atom)) moving.add_atom(term.atom, term.coefficient);
    }
    std::optional<Interval> reach = moving.exact ? interval_of(moving, ranges_) : std::nullopt;
    return reach ? reach->max - reach->min + 1 : std::numeric_limits<i64>::max();
  }
  // Has the atom one value, or that of a fixed variable?
  bool is_same(const Expr* atom) const {
    std::optional<Interval> known = interval_of(atom, ranges_);
    if (known && known->min == known->max) return true;
    bool only_fixed = true;
    for_each<Var>(atom,
                  [&](const Var* var) { only_fixed &= std::find(fixed_.begin(), fixed_.end(), var) != fixed_.end(); });
    return only_fixed;
  }
  // The largest n of which `source % n` is seen to be known.
  i64 known_below(std::size_t source, int depth) const {
    i64 below = 1;
    for (bool grown = true; grown;) {
      grown = false;
      for (const KnownDigit& place : places_) {
        if (place.source != source || place.lower * place.count <= below) continue;
        if (below % place.lower != 0 && !is_residue_known(sources_[source].sum, place.lower, depth)) continue;
        below = place.lower * place.count;
        grown = true;
      }
    }
    return below;
  }
  // Is `sum % n` known, term by term?
  bool is_residue_known(const Sum& sum, i64 n, int depth) const {
    return std::all_of(sum.terms.begin(), sum.terms.end(), [&](const Sum::Term& term) {
      i64 step = std::abs(term.coefficient);
      if (step % n == 0 || is_same(term.atom)) return true;
      return depth > 0 && n % step == 0 && known_below(find(sum_of(term.atom)), depth - 1) % (n / step) == 0;
    });
  }

  List<Bound> bounds_;
  const VarRanges& ranges_;
  const List<const Var*>& fixed_;
  List<Source> sources_;
  List<KnownDigit> places_;
};

}  // namespace

bool are_determined(const List<const Var*>& vars, const List<const Expr*>& exprs, const Expr* predicate,
                    const VarRanges& ranges, const List<const Var*>& fixed) {
  Decoder decoder(predicate, ranges, fixed);
  for (const Expr* expr : exprs) decoder.know(sum_of(expr));
  decoder.close();
  return std::all_of(vars.begin(), vars.end(), [&](const Var* var) {
    const Interval* range = ranges.find(var);
    return decoder.knows(sum_of(var)) || (range && range->min == range->max);
  });
}

}  // namespace tw
