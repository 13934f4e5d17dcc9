#include "dsl/analysis/index_map.h"

#include <algorithm>
#include <tuple>

#include "dsl/analysis/sum.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

// (source // lower) % count; count 0 = all the rest. Sources are the parameters; of maps that fuse also sums of them.
struct Part {
  std::size_t source;
  i64 lower, count;
  std::size_t result;
};

std::optional<Part> part_of(const Expr* e, const List<const Expr*>& sources) {
  auto source = std::find_if(sources.begin(), sources.end(), [&](const Expr* known) { return same_expr(known, e); });
  if (source != sources.end()) return Part{static_cast<std::size_t>(source - sources.begin()), 1, 0, 0};
  const Binary* binary = as<Binary>(e);
  std::optional<i64> c = binary ? constant_of(binary->b) : std::nullopt;
  if (!c || *c <= 0) return std::nullopt;
  std::optional<Part> of = part_of(binary->a, sources);
  if (!of || (of->count != 0 && of->count % *c != 0)) return std::nullopt;
  if (binary->op == BinaryOp::FloorDiv) return Part{of->source, of->lower * *c, of->count / *c, 0};
  if (binary->op == BinaryOp::FloorMod) return Part{of->source, of->lower, *c, 0};
  return std::nullopt;
}

}  // namespace

bool TiledMap::pads() const { return std::find(padded.begin(), padded.end(), true) != padded.end(); }

std::optional<TiledMap> tiled_map(Arena& arena, Array<const Var*> params, Array<const Expr*> results,
                                  Array<i64> extents, const List<const Var*>& coordinates) {
  Build build{arena};
  TiledMap map{{}, {results.begin(), results.end()}, coordinates, {}, {}};
  List<Part> parts;
  List<const Expr*> sources(params.begin(), params.end());
  for (std::size_t r = 0; r < results.size(); ++r) {
    map.shape.push_back(1);
    if (is_constant(results[r], 0)) continue;
    std::optional<Part> part = part_of(results[r], sources);
    if (!part) return std::nullopt;
    part->result = r;
    parts.push_back(*part);
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.lower < b.lower || (a.lower == b.lower && a.count > b.count);
  });
  for (std::size_t p = 0; p < params.size(); ++p) {
    i64 covered = 1;  // of the values of the parameter
    bool open = true;
    const Expr* value = nullptr;
    for (const Part& part : parts) {
      if (part.source != p) continue;
      if (part.lower != covered || !open) return std::nullopt;
      i64 count = part.count != 0 ? part.count : (extents[p] + covered - 1) / covered;
      open = part.count != 0;
      map.shape[part.result] = count;
      const Expr* term = build.mul(coordinates[part.result], part.lower);
      value = value ? build.add(term, value) : term;
      covered *= count;
    }
    if (covered < extents[p]) return std::nullopt;
    map.inverse.push_back(value ? value : build.integer(0));
    map.padded.push_back(covered > extents[p]);
  }
  return map;
}

namespace {

// One term of a result: its value is (coordinate // stride) % count.
struct Term {
  const Expr* atom;  // a part of a parameter, or (a sum of parts) % count
  i64 stride, count;
  std::size_t result;
};

// Takes a map apart from its results: what terms say about parts of parameters, until nothing new follows.
class Inversion {
 public:
  Inversion(Build build, Array<const Var*> params, Array<i64> extents)
      : build_(build), sources_(params.begin(), params.end()), extents_(extents.begin(), extents.end()) {}

  // Sums that are taken apart as a whole, as in (i * 8 + j) // 16, and of which every value is that of one element, are
  // sources, too.
  void find_sources(const Expr* e) {
    const Binary* n = as<Binary>(e);
    if (!n) return;
    find_sources(n->a);
    find_sources(n->b);
    if (n->op != BinaryOp::FloorDiv && n->op != BinaryOp::FloorMod) return;
    std::optional<List<Term>> terms = terms_of(n->a);
    if (!terms || terms->size() < 2 || part_of(n->a, sources_)) return;
    sources_.push_back(n->a);
    extents_.push_back(terms->back().stride * terms->back().count);
  }
  // What follows from sums that are known. False if nothing new does.
  bool learn_sums(std::size_t params) {
    bool grown = false;
    for (std::size_t s = params; s < sources_.size(); ++s) {
      const Expr* whole = value_of(s);
      if (!whole || std::find(taken_apart_.begin(), taken_apart_.end(), s) != taken_apart_.end()) continue;
      taken_apart_.push_back(s);
      List<Term> terms = *terms_of(sources_[s]);
      for (const Term& term : terms) grown |= learn(term, digit(whole, term, extents_[s]));
    }
    return grown;
  }
  const Expr* digit(const Expr* of, const Term& term, i64 extent) const {
    const Expr* above = build_.floor_div(of, build_.integer(term.stride));
    bool is_top = term.stride * term.count == extent;
    return is_top ? above : build_.floor_mod(above, build_.integer(term.count));
  }

  // The terms of one result; their strides are what the terms behind count to. Nothing if they leave holes or overlap.
  std::optional<List<Term>> terms_of(const Expr* result) const {
    Sum sum = sum_of(result);
    if (!sum.exact || sum.constant != 0) return std::nullopt;
    List<Term> terms;
    for (const Sum::Term& term : sum.terms) {
      i64 count = count_of(term.atom);
      if (count < 1 || term.coefficient < 1) return std::nullopt;
      terms.push_back({term.atom, term.coefficient, count, 0});
    }
    std::sort(terms.begin(), terms.end(),
              [](const Term& a, const Term& b) { return std::tie(a.stride, a.count) < std::tie(b.stride, b.count); });
    i64 reach = 1;
    for (Term& term : terms) {
      if (term.count == 1) term.stride = reach;
      if (term.stride != reach || __builtin_mul_overflow(reach, term.count, &reach)) return std::nullopt;
    }
    return terms;
  }

  // `value` is what the term has for a coordinate. False if nothing follows from it yet.
  bool learn(const Term& term, const Expr* value) {
    if (std::optional<Part> part = clipped(term.atom)) {
      known_.push_back({*part, value});
      return true;
    }
    return learn_remainder(as<Binary>(term.atom)->a, term.count, value);
  }

  // The source, put together of its parts; null if some are not known.
  const Expr* value_of(std::size_t source) const {
    i64 covered = 1;
    const Expr* value = nullptr;
    while (covered < extents_[source]) {
      auto next = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
        return known.part.source == source && known.part.lower == covered && known.part.count > 1;
      });
      if (next == known_.end()) return nullptr;
      const Expr* term = build_.mul(next->value, covered);
      value = value ? build_.add(term, value) : term;
      covered *= next->part.count;
    }
    if (covered != extents_[source]) return nullptr;
    return value ? value : build_.integer(0);
  }

 private:
  struct Known {
    Part part;
    const Expr* value;
  };

  // The part with as many values as it has, or nothing.
  std::optional<Part> clipped(const Expr* atom) const {
    std::optional<Part> part = part_of(atom, sources_);
    if (!part) return std::nullopt;
    i64 rest = (extents_[part->source] + part->lower - 1) / part->lower;
    part->count = part->count == 0 ? rest : std::min(part->count, rest);
    return part;
  }
  i64 count_of(const Expr* atom) const {
    if (std::optional<Part> part = clipped(atom)) return part->count;
    const Binary* remainder = as<Binary>(atom);
    if (!remainder || remainder->op != BinaryOp::FloorMod) return 0;
    return constant_of(remainder->b).value_or(0);
  }
  const Expr* value_of(const Part& part) const {
    if (part.count == 1) return build_.integer(0);
    for (const Known& known : known_) {
      if (known.part.source == part.source && known.part.lower == part.lower && known.part.count == part.count)
        return known.value;
    }
    const Expr* whole = value_of(part.source);
    return whole ? build_.floor_mod(build_.floor_div(whole, build_.integer(part.lower)), build_.integer(part.count))
                 : nullptr;
  }
  // sum % count == value, where all parts of the sum but one are known: x % count = (value - the others) % count.
  bool learn_remainder(const Expr* of, i64 count, const Expr* value) {
    Sum sum = sum_of(of);
    if (!sum.exact) return false;
    std::optional<Part> unknown;
    i64 sign = 1;
    const Expr* left = build_.add(value, -sum.constant);
    for (const Sum::Term& term : sum.terms) {
      std::optional<Part> part = clipped(term.atom);
      const Expr* known = part ? value_of(*part) : nullptr;
      if (known) {
        left = build_.sub(left, build_.mul(known, term.coefficient));
        continue;
      }
      if (!part || unknown || (term.coefficient != 1 && term.coefficient != -1)) return false;
      unknown = part;
      sign = term.coefficient;
    }
    if (!unknown || unknown->count % count != 0) return false;
    unknown->count = count;
    known_.push_back({*unknown, build_.floor_mod(build_.mul(left, sign), build_.integer(count))});
    return true;
  }

  Build build_;
  List<const Expr*> sources_;
  List<i64> extents_;  // of the sources
  List<Known> known_;
  List<std::size_t> taken_apart_;
};

// The product, or nothing if it does not fit.
std::optional<i64> product_of(Array<i64> factors) {
  i64 product = 1;
  for (i64 factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

}  // namespace

std::optional<FusedMap> fused_map(Arena& arena, Array<const Var*> params, Array<const Expr*> results,
                                  Array<i64> extents, const List<const Var*>& coordinates) {
  Inversion inversion(Build{arena}, params, extents);
  FusedMap map;
  List<Term> waiting;
  for (const Expr* result : results) inversion.find_sources(result);
  for (std::size_t r = 0; r < results.size(); ++r) {
    std::optional<List<Term>> terms = inversion.terms_of(results[r]);
    if (!terms) return std::nullopt;
    map.shape.push_back(1);
    for (Term& term : *terms) {
      map.shape.back() *= term.count;
      term.result = r;
      waiting.push_back(term);
    }
  }
  for (bool grown = true; grown;) {
    std::size_t before = waiting.size();
    std::erase_if(waiting, [&](const Term& term) {
      return inversion.learn(term, inversion.digit(coordinates[term.result], term, map.shape[term.result]));
    });
    grown = inversion.learn_sums(params.size()) || waiting.size() < before;
  }
  // As many places as elements, and each element follows from its place: one to one.
  std::optional<i64> places = product_of(map.shape);
  if (!places || places != product_of(extents)) return std::nullopt;
  for (std::size_t p = 0; p < params.size(); ++p) {
    map.inverse.push_back(inversion.value_of(p));
    if (!map.inverse.back()) return std::nullopt;
  }
  return map;
}

namespace {

// Integer arithmetic over the parameters, as often as there are elements.
class Evaluation {
 public:
  explicit Evaluation(Array<const Var*> params) : params_(params) {}

  // Nothing if the expression has no value there: a division by zero, or more than 64 bits.
  std::optional<i64> value(const Expr* e, const List<i64>& at) const {
    if (const IntImm* imm = as<IntImm>(e)) return imm->value;
    if (as<Var>(e)) return at[static_cast<std::size_t>(std::find(params_.begin(), params_.end(), e) - params_.begin())];
    const Binary* n = static_cast<const Binary*>(e);
    std::optional<i64> a = value(n->a, at), b = a ? value(n->b, at) : std::nullopt;
    i64 out = 0;
    if (!b) return std::nullopt;
    switch (n->op) {
      case BinaryOp::Add:
        return __builtin_add_overflow(*a, *b, &out) ? std::nullopt : std::optional(out);
      case BinaryOp::Sub:
        return __builtin_sub_overflow(*a, *b, &out) ? std::nullopt : std::optional(out);
      case BinaryOp::Mul:
        return __builtin_mul_overflow(*a, *b, &out) ? std::nullopt : std::optional(out);
      case BinaryOp::FloorDiv:
      case BinaryOp::FloorMod:
        if (*b == -1)
          return n->op == BinaryOp::FloorMod                ? std::optional<i64>(0)
                 : __builtin_sub_overflow(i64{0}, *a, &out) ? std::nullopt
                                                            : std::optional(out);
        return fold(n->op, *a, *b);
      default:
        return fold(n->op, *a, *b);
    }
  }
  static bool understands(const Expr* e) {
    if (as<IntImm>(e) || as<Var>(e)) return true;
    const Binary* n = as<Binary>(e);
    constexpr BinaryOp kOps[] = {BinaryOp::Add,      BinaryOp::Sub, BinaryOp::Mul, BinaryOp::FloorDiv,
                                 BinaryOp::FloorMod, BinaryOp::Min, BinaryOp::Max};
    return n && std::find(std::begin(kOps), std::end(kOps), n->op) != std::end(kOps) && understands(n->a) &&
           understands(n->b);
  }

 private:
  Array<const Var*> params_;
};

// The elements of a box one after another, the last index first; false after the last one.
bool advance(List<i64>& at, Array<i64> extents) {
  for (std::size_t d = at.size(); d-- > 0;) {
    if (++at[d] < extents[d]) return true;
    at[d] = 0;
  }
  return false;
}

Str text_of(Arena& arena, const List<i64>& at) { return arena.text(cat("(", join(at, ", "), ")")); }

// Where an element goes, as one number.
i64 place_of(const List<i64>& at, Array<const Expr*> results, const List<i64>& shape, const Evaluation& evaluation) {
  i64 place = 0;
  for (std::size_t r = 0; r < results.size(); ++r) place = place * shape[r] + *evaluation.value(results[r], at);
  return place;
}

}  // namespace

Result<List<i64>> tried_shape(Arena& arena, Str buffer, Array<const Var*> params, Array<const Expr*> results,
                              Array<i64> extents) {
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (!Evaluation::understands(results[r]))
      return reject("result {0} of the map of `{a}` is not made of + - * // % min max", buffer, static_cast<i64>(r));
  }
  std::optional<i64> elements = product_of(extents);
  if (!elements || *elements > kMostTried)
    return reject("the map of `{a}` is not proved to be one to one, and of its {0} elements at most {1} are tried",
                  buffer, elements.value_or(INT64_MAX), kMostTried);
  Evaluation evaluation(params);
  List<i64> shape(results.size(), 1), at(extents.size(), 0);
  do {
    for (std::size_t r = 0; r < results.size(); ++r) {
      std::optional<i64> index = evaluation.value(results[r], at);
      if (!index)
        return reject("result {0} of the map of `{a}` has no value for element {b}", buffer, text_of(arena, at),
                      static_cast<i64>(r));
      if (*index < 0)
        return reject("result {0} of the map of `{a}` is {1} for element {b}", buffer, text_of(arena, at),
                      static_cast<i64>(r), *index);
      shape[r] = std::max(shape[r], *index + 1);
    }
  } while (advance(at, extents));

  std::optional<i64> places = product_of(shape);
  if (!places || *places > *elements) {
    return reject(
        "the map of `{a}` leaves places without an element, which only results of p, p // c and p % c may: {0} "
        "elements, {1} places",
        buffer, *elements, places.value_or(INT64_MAX));
  }
  std::vector<bool> taken(static_cast<std::size_t>(*places));
  do {
    i64 place = place_of(at, results, shape, evaluation);
    if (taken[static_cast<std::size_t>(place)]) {
      List<i64> first(extents.size(), 0);
      while (place_of(first, results, shape, evaluation) != place) advance(first, extents);
      return reject("the map sends elements {a} and {b} to one place", text_of(arena, first), text_of(arena, at));
    }
    taken[static_cast<std::size_t>(place)] = true;
  } while (advance(at, extents));
  return shape;
}

}  // namespace tw
