#include "dsl/analysis/affine.h"

#include <algorithm>
#include <numeric>

#include "dsl/analysis/sum.h"
#include "dsl/ir/walk.h"

namespace tw {

i64 floor_div(i64 a, i64 b) {
  i64 q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
i64 floor_mod(i64 a, i64 b) {
  i64 r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

namespace {
bool same_field(const Expr* a, const Expr* b) { return same_expr(a, b); }
bool same_field(Array<const Expr*> a, Array<const Expr*> b) { return same_exprs(a, b); }
template <class T>
bool same_field(const T& a, const T& b) {
  return a == b;
}
}  // namespace

bool same_expr(const Expr* a, const Expr* b) {
  if (a == b) return true;
  if (!a || !b || a->kind != b->kind || a->type != b->type) return false;
  if (a->kind == Kind::Var) return false;  // only equal to itself
  return dispatch(a, [&](const auto& n) {
    using T = std::decay_t<decltype(n)>;
    if constexpr (std::is_base_of_v<Expr, T>)
      return same_fields(n, *as<T>(b), [](const auto& x, const auto& y) { return same_field(x, y); });
    else
      return false;
  });
}

bool same_exprs(Array<const Expr*> a, Array<const Expr*> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_expr);
}

// ---- Sum

namespace {

// Numbers beyond this count as overflow, so that negation and differences of two numbers are always safe.
constexpr i64 kLimit = i64{1} << 61;
bool is_small(i64 value) { return -kLimit <= value && value <= kLimit; }

// False on overflow.
[[nodiscard]] bool multiply_add(i64 a, i64 b, i64& sum) {
  i64 product;
  return !__builtin_mul_overflow(a, b, &product) && is_small(product) && !__builtin_add_overflow(sum, product, &sum) &&
         is_small(sum);
}

}  // namespace

void Sum::add_constant(i64 value, i64 factor) { exact = exact && multiply_add(value, factor, constant); }

void Sum::add_atom(const Expr* atom, i64 coefficient) {
  exact = exact && is_small(coefficient);
  if (coefficient == 0 || !exact) return;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (!same_expr(terms[i].atom, atom)) continue;
    exact = multiply_add(coefficient, 1, terms[i].coefficient);
    if (terms[i].coefficient == 0) terms.erase(i);
    return;
  }
  if (!terms.push_back({atom, coefficient})) exact = false;
}

void Sum::add(const Sum& other, i64 factor) {
  exact = exact && other.exact;
  add_constant(other.constant, factor);
  for (const Term& term : other.terms) {
    i64 product = 0;
    exact = exact && multiply_add(term.coefficient, factor, product);
    add_atom(term.atom, product);
  }
}

void Sum::collect(const Expr* expr, i64 factor) {
  if (std::optional<i64> value = constant_of(expr)) return add_constant(*value, factor);
  if (const Unary* unary = as<Unary>(expr); unary && unary->op == UnaryOp::Neg) return collect(unary->value, -factor);
  const Binary* binary = as<Binary>(expr);
  if (!binary) return add_atom(expr, factor);
  switch (binary->op) {
    case BinaryOp::Add:
      collect(binary->a, factor);
      return collect(binary->b, factor);
    case BinaryOp::Sub:
      collect(binary->a, factor);
      return collect(binary->b, -factor);
    case BinaryOp::Mul: {
      std::optional<i64> value = constant_of(binary->b);
      i64 product = 0;
      if (!value) return add_atom(expr, factor);
      exact = exact && multiply_add(*value, factor, product);
      return exact ? collect(binary->a, product) : void();
    }
    default:
      return add_atom(expr, factor);
  }
}

bool Sum::is_atom(const Expr* atom) const {
  return exact && constant == 0 && terms.size() == 1 && terms[0].coefficient == 1 && same_expr(terms[0].atom, atom);
}

Sum sum_of(const Expr* expr) {
  Sum sum;
  sum.collect(expr);
  return sum;
}

Sum difference_of(const Expr* a, const Expr* b) {
  Sum sum;
  sum.collect(a);
  sum.collect(b, -1);
  return sum;
}

const Expr* to_expr(Arena& arena, const Sum& sum) {
  Build build{arena};
  // A positive term comes first, so that `b - a` is not written as `a * -1 + b`.
  std::size_t first = 0;
  while (first < sum.terms.size() && sum.terms[first].coefficient < 0) ++first;
  if (first == sum.terms.size()) first = 0;
  const Expr* out = nullptr;
  auto append = [&](const Sum::Term& term) {
    if (!out)
      out = build.mul(term.atom, term.coefficient);
    else if (term.coefficient > 0)
      out = build.add(out, build.mul(term.atom, term.coefficient));
    else
      out = build.sub(out, build.mul(term.atom, -term.coefficient));
  };
  if (!sum.terms.empty()) append(sum.terms[first]);
  for (std::size_t i = 0; i < sum.terms.size(); ++i) {
    if (i != first) append(sum.terms[i]);
  }
  return out ? build.add(out, sum.constant) : build.integer(sum.constant);
}

// ---- linear forms

i64 LinearForm::coefficient(const Var* var) const {
  for (const auto& [v, c] : terms) {
    if (v == var) return c;
  }
  return 0;
}

std::optional<LinearForm> linear_form(const Expr* expr) {
  Sum sum = sum_of(expr);
  if (!sum.exact) return std::nullopt;
  LinearForm form;
  form.constant = sum.constant;
  for (const Sum::Term& term : sum.terms) {
    const Var* var = as<Var>(term.atom);
    if (!var || !form.terms.push_back({var, term.coefficient})) return std::nullopt;
  }
  return form;
}

const Expr* to_expr(Arena& arena, const LinearForm& form) {
  Sum sum;
  sum.add_constant(form.constant);
  for (const auto& [var, coefficient] : form.terms) sum.add_atom(var, coefficient);
  return to_expr(arena, sum);
}

// ---- intervals

namespace {

using MaybeInterval = std::optional<Interval>;

MaybeInterval add(Interval a, Interval b) {
  return multiply_add(b.min, 1, a.min) && multiply_add(b.max, 1, a.max) ? MaybeInterval(a) : std::nullopt;
}

MaybeInterval multiply(Interval a, Interval b) {
  i64 products[4] = {};
  if (!multiply_add(a.min, b.min, products[0]) || !multiply_add(a.min, b.max, products[1]) ||
      !multiply_add(a.max, b.min, products[2]) || !multiply_add(a.max, b.max, products[3])) {
    return std::nullopt;
  }
  auto [low, high] = std::minmax_element(products, products + 4);
  return Interval{*low, *high};
}

// a % n, n > 0. A multiple of g stays one: its remainder is at most n - g.
Interval modulo(Interval a, i64 n, i64 divisor) {
  i64 base = floor_div(a.min, n);
  if (base == floor_div(a.max, n)) return {a.min - base * n, a.max - base * n};
  return {0, n - std::max<i64>(std::gcd(divisor, n), 1)};
}

MaybeInterval interval_of_binary(const Binary* e, const VarRanges& ranges) {
  if (e->type.dtype == DType::Bool) {
    std::optional<bool> known = decide(e, ranges);
    return known ? Interval{*known, *known} : Interval{0, 1};
  }
  if (e->op == BinaryOp::Add || e->op == BinaryOp::Sub) return interval_of(sum_of(e), ranges);
  MaybeInterval a = interval_of(e->a, ranges), b = interval_of(e->b, ranges);
  if (e->op == BinaryOp::FloorMod && b && b->min == b->max && b->min > 0) {
    return a ? modulo(*a, b->min, known_divisor(e->a)) : Interval{0, b->min - 1};
  }
  if (!a || !b) return std::nullopt;
  switch (e->op) {
    case BinaryOp::Mul:
      return multiply(*a, *b);
    case BinaryOp::Min:
      return Interval{std::min(a->min, b->min), std::min(a->max, b->max)};
    case BinaryOp::Max:
      return Interval{std::max(a->min, b->min), std::max(a->max, b->max)};
    case BinaryOp::FloorDiv:
      if (b->min <= 0 || b->min != b->max) return std::nullopt;
      return Interval{floor_div(a->min, b->min), floor_div(a->max, b->min)};
    default:
      return std::nullopt;
  }
}

// Of within(x, min, extent); nothing for null.
MaybeInterval interval_of_claim(const Call* claim, const VarRanges& ranges) {
  MaybeInterval min = claim ? interval_of(claim->arguments[1], ranges) : std::nullopt;
  MaybeInterval extent = min ? interval_of(claim->arguments[2], ranges) : std::nullopt;
  if (!extent) return std::nullopt;
  Interval said{min->min, min->max + extent->max - 1};
  MaybeInterval known = interval_of(claim->arguments[0], ranges);
  return known ? Interval{std::max(said.min, known->min), std::min(said.max, known->max)} : said;
}

}  // namespace

std::optional<Interval> interval_of(const Sum& sum, const VarRanges& ranges) {
  if (!sum.exact) return std::nullopt;
  MaybeInterval total = Interval{sum.constant, sum.constant};
  for (const Sum::Term& term : sum.terms) {
    MaybeInterval atom = interval_of(term.atom, ranges);
    MaybeInterval scaled = atom ? multiply(*atom, {term.coefficient, term.coefficient}) : std::nullopt;
    total = scaled ? add(*total, *scaled) : std::nullopt;
    if (!total) return std::nullopt;
  }
  return total;
}

std::optional<Interval> interval_of(const Expr* expr, const VarRanges& ranges) {
  if (expr->type.lanes != 1) return std::nullopt;
  switch (expr->kind) {
    case Kind::IntImm: {
      i64 value = static_cast<const IntImm*>(expr)->value;
      return Interval{value, value};
    }
    case Kind::Var: {
      const Interval* known = ranges.find(static_cast<const Var*>(expr));
      return known ? MaybeInterval(*known) : std::nullopt;
    }
    case Kind::Cast: {
      auto* cast = static_cast<const Cast*>(expr);
      return cast->type.dtype == DType::I64 && cast->value->type.dtype == DType::Bool ? interval_of(cast->value, ranges)
                                                                                      : std::nullopt;
    }
    case Kind::Unary:
      if (expr->type.dtype == DType::Bool) return Interval{0, 1};
      return expr->type.dtype == DType::I64 ? interval_of(sum_of(expr), ranges) : std::nullopt;
    case Kind::Select: {
      auto* select = static_cast<const Select*>(expr);
      if (std::optional<bool> known = decide(select->condition, ranges)) {
        return interval_of(*known ? select->then : select->otherwise, ranges);
      }
      MaybeInterval a = interval_of(select->then, ranges), b = interval_of(select->otherwise, ranges);
      return a && b ? MaybeInterval({std::min(a->min, b->min), std::max(a->max, b->max)}) : std::nullopt;
    }
    case Kind::Call:
      return interval_of_claim(as_within(expr), ranges);
    case Kind::Binary: {
      DType dtype = expr->type.dtype;
      if (dtype != DType::I64 && dtype != DType::Bool) return std::nullopt;
      return interval_of_binary(static_cast<const Binary*>(expr), ranges);
    }
    default:
      return std::nullopt;
  }
}

// ---- proofs

namespace {

std::optional<bool> negated(std::optional<bool> known) { return known ? std::optional(!*known) : std::nullopt; }

// What is said about a sum: every comparison of integers is one of these (`a < b` is a - b < 0).
enum class Sign : u8 { Negative, NotNegative, Zero, NotZero };
struct SignClaim {
  Sum sum;
  Sign sign;
};

// Nothing for what is not a comparison of I64.
std::optional<SignClaim> claim_of(const Binary* comparison) {
  if (!comparison || comparison->a->type != Type{DType::I64, 1}) return std::nullopt;
  SignClaim claim{difference_of(comparison->a, comparison->b), Sign::Negative};
  switch (comparison->op) {
    case BinaryOp::Lt:
      break;
    case BinaryOp::Ge:
      claim.sign = Sign::NotNegative;
      break;
    case BinaryOp::Le:
      claim.sum.add_constant(-1);
      break;
    case BinaryOp::Gt:
      claim.sum.add_constant(-1);
      claim.sign = Sign::NotNegative;
      break;
    case BinaryOp::Eq:
      claim.sign = Sign::Zero;
      break;
    case BinaryOp::Ne:
      claim.sign = Sign::NotZero;
      break;
    default:
      return std::nullopt;
  }
  return claim.sum.exact ? std::optional(claim) : std::nullopt;
}

// Is every value of the sum different from 0 because the coefficients' divisor does not divide the constant?
bool misses_zero(const Sum& sum) {
  i64 divisor = 0;
  for (const Sum::Term& term : sum.terms) divisor = std::gcd(divisor, term.coefficient);
  return divisor > 1 && sum.constant % divisor != 0;
}

std::optional<bool> decide_claim(const SignClaim& claim, const VarRanges& ranges) {
  MaybeInterval range = interval_of(claim.sum, ranges);
  bool about_zero = claim.sign == Sign::Zero || claim.sign == Sign::NotZero;
  if (about_zero) {
    bool never = (range && (range->min > 0 || range->max < 0)) || misses_zero(claim.sum);
    if (never) return claim.sign == Sign::NotZero;
    if (range && range->min == 0 && range->max == 0) return claim.sign == Sign::Zero;
    return std::nullopt;
  }
  if (!range) return std::nullopt;
  if (range->max < 0) return claim.sign == Sign::Negative;
  if (range->min >= 0) return claim.sign == Sign::NotNegative;
  return std::nullopt;
}

}  // namespace

std::optional<bool> decide(const Expr* condition, const VarRanges& ranges) {
  if (condition->type != Type{DType::Bool, 1}) return std::nullopt;
  if (std::optional<i64> value = constant_of(condition)) return *value != 0;
  if (const Unary* unary = as<Unary>(condition)) return negated(decide(unary->value, ranges));
  const Binary* binary = as<Binary>(condition);
  if (!binary) return std::nullopt;
  if (binary->op == BinaryOp::And || binary->op == BinaryOp::Or) {
    bool absorbing = binary->op == BinaryOp::Or;
    std::optional<bool> a = decide(binary->a, ranges), b = decide(binary->b, ranges);
    if (a == absorbing || b == absorbing) return absorbing;
    return a && b ? std::optional(!absorbing) : std::nullopt;
  }
  std::optional<SignClaim> claim = claim_of(binary);
  return claim ? decide_claim(*claim, ranges) : std::nullopt;
}

i64 known_divisor(const Expr* expr) {
  if (expr->type != Type{DType::I64, 1}) return 1;
  Sum sum = sum_of(expr);
  if (!sum.exact) return 1;
  if (!sum.is_atom(expr)) {
    i64 divisor = sum.constant;
    for (const Sum::Term& term : sum.terms) {
      i64 product = 0;
      divisor = std::gcd(divisor, multiply_add(term.coefficient, known_divisor(term.atom), product) ? product : 1);
    }
    return divisor;
  }
  if (const Select* select = as<Select>(expr))
    return std::gcd(known_divisor(select->then), known_divisor(select->otherwise));
  const Binary* binary = as<Binary>(expr);
  if (!binary) return 1;
  i64 a = known_divisor(binary->a), b = known_divisor(binary->b), product = 0;
  switch (binary->op) {
    case BinaryOp::Mul:
      return multiply_add(a, b, product) ? product : 1;
    case BinaryOp::Min:
    case BinaryOp::Max:
      return std::gcd(a, b);
    case BinaryOp::FloorMod:
      return std::max<i64>(std::gcd(a, b), 1);
    case BinaryOp::FloorDiv: {
      std::optional<i64> n = constant_of(binary->b);
      return n && *n > 0 && a % *n == 0 ? a / *n : 1;
    }
    default:
      return 1;
  }
}

// ---- assumptions

namespace {

// sum < 0 bounds each variable by the least value of the other terms.
bool assume_negative(const Sum& sum, VarRanges& ranges) {
  for (const Sum::Term& term : sum.terms) {
    const Var* var = as<Var>(term.atom);
    const Interval* known = var ? ranges.find(var) : nullptr;
    if (!known) continue;
    Sum others = sum;
    others.add_atom(var, -term.coefficient);
    MaybeInterval rest = interval_of(others, ranges);
    if (!rest) continue;
    // coefficient * var <= -1 - rest.min
    i64 bound = floor_div(-1 - rest->min, std::abs(term.coefficient));
    Interval narrowed = *known;
    if (term.coefficient > 0)
      narrowed.max = std::min(narrowed.max, bound);
    else
      narrowed.min = std::max(narrowed.min, -bound);
    if (narrowed.min > narrowed.max) return false;
    if (narrowed != *known) ranges.set(var, narrowed);
  }
  return true;
}

Sum negative(const Sum& sum, i64 constant) {
  Sum out;
  out.add(sum, -1);
  out.add_constant(constant);
  return out;
}

}  // namespace

bool assume(const Expr* condition, bool holds, VarRanges& ranges) {
  if (const Unary* unary = as<Unary>(condition); unary && unary->op == UnaryOp::Not)
    return assume(unary->value, !holds, ranges);
  const Binary* binary = as<Binary>(condition);
  if (!binary) return true;
  if (binary->op == (holds ? BinaryOp::And : BinaryOp::Or)) {
    return assume(binary->a, holds, ranges) && assume(binary->b, holds, ranges);
  }
  std::optional<SignClaim> claim = claim_of(binary);
  if (!claim) return true;
  bool is_negative = claim->sign == (holds ? Sign::Negative : Sign::NotNegative);
  bool is_not_negative = claim->sign == (holds ? Sign::NotNegative : Sign::Negative);
  bool is_zero = claim->sign == (holds ? Sign::Zero : Sign::NotZero);
  if (is_negative) return assume_negative(claim->sum, ranges);
  if (is_not_negative) return assume_negative(negative(claim->sum, -1), ranges);
  if (!is_zero) return true;
  Sum at_most = claim->sum;
  at_most.add_constant(-1);
  return assume_negative(at_most, ranges) && assume_negative(negative(claim->sum, -1), ranges);
}

std::optional<Sum> negative_where(const Expr* comparison) {
  std::optional<SignClaim> claim = claim_of(as<Binary>(comparison));
  if (!claim || claim->sign == Sign::Zero || claim->sign == Sign::NotZero) return std::nullopt;
  return claim->sign == Sign::Negative ? claim->sum : negative(claim->sum, -1);
}

}  // namespace tw
