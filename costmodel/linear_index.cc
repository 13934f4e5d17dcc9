#include "costmodel/linear_index.h"

#include <algorithm>
#include <cmath>

namespace tw {
namespace {

void add_scaled(LinearIndex& to, const LinearIndex& from, double factor) {
  to.constant += factor * from.constant;
  to.irregular |= from.irregular;
  add(to.ops, from.ops);
  auto times = static_cast<float>(factor), length = std::fabs(times);
  if (to.count == 0) {
    for (const LinearIndex::Term& term : from.terms())
      to.storage[static_cast<std::size_t>(to.count++)] = {term.loop, times * term.coefficient, length * term.span};
    return;
  }
  for (const LinearIndex::Term& term : from.terms()) {
    LinearIndex::Term& sum = to.term(term.loop);
    sum.coefficient += times * term.coefficient;
    sum.span += length * term.span;
  }
}

void scale(LinearIndex& index, double factor) {
  index.constant *= factor;
  for (LinearIndex::Term& term : index.terms()) {
    term.coefficient *= static_cast<float>(factor);
    term.span *= static_cast<float>(std::fabs(factor));
  }
}

// Steps that are smaller than the divisor become average slopes; what moves less than the divisor disappears.
void divide(LinearIndex& index, i64 by) {
  index.constant = std::floor(index.constant / static_cast<double>(by));
  for (LinearIndex::Term& term : index.terms()) {
    float span = term.span / static_cast<float>(by);
    term.span = is_multiple(term.coefficient, static_cast<double>(by)) ? span : std::floor(span);
    term.coefficient = term.span > 0 ? term.coefficient / static_cast<float>(by) : 0;
  }
}

// No loop, and not all loops together, move the index by more than `limit`. Inner loops take their part first.
void limit_span(LinearIndex& index, double limit) {
  for (int i = index.count; i-- > 0;) {
    float& span = index.terms()[static_cast<std::size_t>(i)].span;
    span = std::min(span, static_cast<float>(limit));
    limit -= span;
  }
}

void take_modulo(LinearIndex& index, i64 by) {
  if (index.lowest() >= 0 && index.highest() < static_cast<double>(by)) return;
  index.constant = index.constant - std::floor(index.constant / static_cast<double>(by)) * static_cast<double>(by);
  for (LinearIndex::Term& term : index.terms()) {
    if (is_multiple(term.coefficient, static_cast<double>(by))) term.coefficient = term.span = 0;
  }
  auto most = static_cast<double>(by - 1);
  limit_span(index, most);
  // An index that passes `most` begins at 0 again, so its whole span is moved to lie from 0 to `most`.
  index.constant -= std::max(0.0, index.highest() - most);
  index.constant -= std::min(0.0, index.lowest());
}

bool is_fixed(const LinearIndex& index) {
  return std::ranges::all_of(index.terms(), [](const LinearIndex::Term& term) { return term.span == 0; });
}

void take_quotient(BinaryOp op, LinearIndex& index, const LinearIndex& divisor) {
  add(index.ops, divisor.ops);
  i64 by = static_cast<i64>(divisor.constant);
  if (!is_fixed(divisor) || by <= 0)
    index.irregular = true;
  else if (op == BinaryOp::FloorDiv)
    divide(index, by);
  else
    take_modulo(index, by);
}

// Products, minima and maxima move as their moving operand does.
void combine(BinaryOp op, LinearIndex& a, const LinearIndex& b) {
  bool a_fixed = is_fixed(a), both_move = !a_fixed && !is_fixed(b);
  double factor = a_fixed ? a.constant : b.constant;
  bool irregular = a.irregular || b.irregular || both_move;
  OpCounts ops = a.ops;
  add(ops, b.ops);
  if (a_fixed) a.copy(b);
  if (op == BinaryOp::Mul) scale(a, factor), a.irregular = irregular;
  a.ops = ops;
}

double clamp_share(double share) { return std::clamp(share, 0.0, 1.0); }

}  // namespace

// `from` is never a part of `to`: the compiler may add several at once.
void add(OpCounts& __restrict to, const OpCounts& __restrict from) {
  for (int i = 0; i < kOps; ++i) to[i] += from[i];
}

Op op_of(BinaryOp op, DType operands) {
  bool real = is_float(operands);
  switch (op) {
    case BinaryOp::Add:
    case BinaryOp::Sub:
      return real ? Op::FloatAddSub : Op::IntAddSub;
    case BinaryOp::Mul:
      return real ? Op::FloatMul : Op::IntMul;
    case BinaryOp::Div:
    case BinaryOp::FloorDiv:
    case BinaryOp::FloorMod:
      return real ? Op::FloatDivMod : Op::IntDivMod;
    case BinaryOp::And:
    case BinaryOp::Or:
      return Op::Bool;
    default:
      return real ? Op::FloatCmp : Op::IntCmp;
  }
}

LinearIndex::Term& LinearIndex::term(int loop) {
  int at = count;
  while (at > 0 && storage[static_cast<std::size_t>(at - 1)].loop >= loop) --at;
  Term* place = storage.data() + at;
  if (at < count && place->loop == loop) return *place;
  std::copy_backward(place, storage.data() + count, storage.data() + count + 1);
  ++count;
  return *place = {loop, 0, 0};
}

void LinearIndex::clear() {
  constant = 0;
  irregular = false;
  ops = {};
  count = 0;
}

void LinearIndex::copy(const LinearIndex& other) {
  constant = other.constant;
  irregular = other.irregular;
  ops = other.ops;
  count = other.count;
  std::ranges::copy(other.terms(), storage.begin());
}

double LinearIndex::lowest() const {
  double sum = constant;
  for (const Term& term : terms()) sum -= term.coefficient < 0 ? term.span : 0;
  return sum;
}

double LinearIndex::highest() const {
  double sum = constant;
  for (const Term& term : terms()) sum += term.coefficient > 0 ? term.span : 0;
  return sum;
}

void LinearScope::reset(u32 variables) {
  meanings_.assign(variables, {});
  used_values_ = 0;
}

LinearScope::Meaning& LinearScope::meaning(const Var* var) {
  if (var->id >= meanings_.size()) meanings_.resize(var->id + 1);
  return meanings_[var->id];
}

void LinearScope::bind_loop(const Var* var, int position, i64 extent) {
  meaning(var) = {Meaning::Tag::Loop, position, static_cast<float>(extent - 1)};
}

void LinearScope::bind_zero(const Var* var) { value_of(var).clear(); }

const LinearIndex& LinearScope::bind(const Var* var, const Expr* value) {
  LinearIndex& index = value_of(var);
  evaluate(value, index);
  return index;
}

LinearIndex& LinearScope::value_of(const Var* var) {
  Meaning& known = meaning(var);
  if (known.tag != Meaning::Tag::Value) {
    if (used_values_ == values_.size()) values_.emplace_back();
    known = {Meaning::Tag::Value, static_cast<int>(used_values_++), 0};
  }
  return values_[static_cast<std::size_t>(known.index)];
}

const LinearIndex& LinearScope::index_of(const Expr* expr, LinearIndex& memory) const {
  u32 id = expr->kind == Kind::Var ? static_cast<const Var*>(expr)->id : static_cast<u32>(meanings_.size());
  if (id < meanings_.size() && meanings_[id].tag == Meaning::Tag::Value)
    return values_[static_cast<std::size_t>(meanings_[id].index)];
  evaluate(expr, memory);
  return memory;
}

void LinearScope::evaluate(const Expr* expr, LinearIndex& out) const {
  out.clear();
  add_to(expr, 1, out);
}

void LinearScope::add_to(const Expr* expr, double factor, LinearIndex& out) const {
  switch (expr->kind) {
    case Kind::IntImm:
      out.constant += factor * static_cast<double>(static_cast<const IntImm*>(expr)->value);
      return;
    case Kind::Cast:
      return add_to(static_cast<const Cast*>(expr)->value, factor, out);
    case Kind::Binary:
      return add_binary(static_cast<const Binary*>(expr), factor, out);
    case Kind::Select:
      return add_to(static_cast<const Select*>(expr)->then, factor, out);
    case Kind::Var:
      return add_variable(static_cast<const Var*>(expr)->id, factor, out);
    default:
      out.irregular = true;
  }
}

void LinearScope::add_variable(u32 id, double factor, LinearIndex& out) const {
  Meaning known = id < meanings_.size() ? meanings_[id] : Meaning{};
  if (known.tag == Meaning::Tag::Loop) {
    LinearIndex::Term& term = out.term(known.index);
    term.coefficient += static_cast<float>(factor);
    term.span += static_cast<float>(std::fabs(factor)) * known.span;
  } else if (known.tag == Meaning::Tag::Value) {
    add_scaled(out, values_[static_cast<std::size_t>(known.index)], factor);
  }
}

bool LinearScope::moves(u32 id) const {
  Meaning known = id < meanings_.size() ? meanings_[id] : Meaning{};
  if (known.tag == Meaning::Tag::Loop) return known.span > 0;
  return known.tag == Meaning::Tag::Value && !is_fixed(values_[static_cast<std::size_t>(known.index)]);
}

// Sums, and variables times a number, of which nearly all indices are made, need no index of their own.
void LinearScope::add_binary(const Binary* expr, double factor, LinearIndex& out) const {
  at(out.ops, op_of(expr->op, DType::I64)) += 1;
  if (expr->op == BinaryOp::Add || expr->op == BinaryOp::Sub) {
    add_to(expr->a, factor, out);
    return add_to(expr->b, expr->op == BinaryOp::Add ? factor : -factor, out);
  }
  const Var* variable = as<Var>(expr->a);
  const IntImm* number = as<IntImm>(expr->b);
  if (expr->op == BinaryOp::Mul && variable && number && moves(variable->id))
    return add_variable(variable->id, factor * static_cast<double>(number->value), out);
  LinearIndex a, b;
  evaluate(expr->a, a);
  evaluate(expr->b, b);
  if (expr->op == BinaryOp::FloorDiv || expr->op == BinaryOp::FloorMod)
    take_quotient(expr->op, a, b);
  else
    combine(expr->op, a, b);
  add_scaled(out, a, factor);
}

double LinearScope::share(const Expr* condition) const {
  if (auto* unary = as<Unary>(condition)) return unary->op == UnaryOp::Not ? 1 - share(unary->value) : 1;
  auto* binary = as<Binary>(condition);
  if (!binary) return 1;
  if (binary->op == BinaryOp::And) return share(binary->a) * share(binary->b);
  if (binary->op == BinaryOp::Or) return 1 - (1 - share(binary->a)) * (1 - share(binary->b));
  LinearIndex difference, b;
  evaluate(binary->a, difference);
  evaluate(binary->b, b);
  add_scaled(difference, b, -1);
  if (difference.irregular) return 1;
  double low = difference.lowest(), high = difference.highest(), points = high - low + 1;
  switch (binary->op) {  // of the values low .. high of a - b
    case BinaryOp::Lt:
      return clamp_share(-low / points);
    case BinaryOp::Le:
      return clamp_share((1 - low) / points);
    case BinaryOp::Gt:
      return clamp_share(high / points);
    case BinaryOp::Ge:
      return clamp_share((high + 1) / points);
    case BinaryOp::Eq:
      return low <= 0 && high >= 0 ? 1 / points : 0;
    case BinaryOp::Ne:
      return low <= 0 && high >= 0 ? 1 - 1 / points : 1;
    default:
      return 1;
  }
}

}  // namespace tw
