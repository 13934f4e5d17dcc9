#include "costmodel/linear_index.h"

#include <algorithm>
#include <cmath>

namespace tw {
namespace {

void add_scaled(LinearIndex& to, const LinearIndex& from, double factor) {
  to.constant += factor * from.constant;
  to.irregular |= from.irregular;
  add(to.ops, from.ops);
  for (int d = 0; d < to.depth; ++d) {
    to.coefficient[d] += static_cast<float>(factor) * from.coefficient[d];
    to.span[d] += static_cast<float>(std::fabs(factor)) * from.span[d];
  }
}

bool is_multiple(float value, i64 of) { return std::fmod(value, static_cast<float>(of)) == 0; }

// Steps that are smaller than the divisor become average slopes; what moves less than the divisor disappears.
void divide(LinearIndex& index, i64 by) {
  index.constant = std::floor(index.constant / static_cast<double>(by));
  for (int d = 0; d < index.depth; ++d) {
    float span = index.span[d] / static_cast<float>(by);
    index.span[d] = is_multiple(index.coefficient[d], by) ? span : std::floor(span);
    index.coefficient[d] = index.span[d] > 0 ? index.coefficient[d] / static_cast<float>(by) : 0;
  }
}

// No loop, and not all loops together, move the index by more than `limit`. Inner loops take their part first.
void limit_span(LinearIndex& index, double limit) {
  for (int d = index.depth; d-- > 0;) {
    index.span[d] = std::min(index.span[d], static_cast<float>(limit));
    limit -= index.span[d];
  }
}

void take_modulo(LinearIndex& index, i64 by) {
  if (index.lowest() >= 0 && index.highest() < static_cast<double>(by)) return;
  index.constant = index.constant - std::floor(index.constant / static_cast<double>(by)) * static_cast<double>(by);
  for (int d = 0; d < index.depth; ++d) {
    if (is_multiple(index.coefficient[d], by)) index.coefficient[d] = index.span[d] = 0;
  }
  limit_span(index, static_cast<double>(by - 1));
}

bool is_fixed(const LinearIndex& index) {
  return std::all_of(index.span, index.span + index.depth, [](float span) { return span == 0; });
}

double clamp_share(double share) { return std::clamp(share, 0.0, 1.0); }

}  // namespace

void add(OpCounts& to, const OpCounts& from) {
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

void LinearIndex::clear(int new_depth) {
  constant = 0;
  irregular = false;
  depth = new_depth;
  ops = {};
  std::fill_n(coefficient, depth, 0.0f);
  std::fill_n(span, depth, 0.0f);
}

void LinearIndex::copy(const LinearIndex& other) {
  constant = other.constant;
  irregular = other.irregular;
  depth = other.depth;
  ops = other.ops;
  std::copy_n(other.coefficient, depth, coefficient);
  std::copy_n(other.span, depth, span);
}

double LinearIndex::lowest() const {
  double sum = constant;
  for (int d = 0; d < depth; ++d) sum -= coefficient[d] < 0 ? span[d] : 0;
  return sum;
}

double LinearIndex::highest() const {
  double sum = constant;
  for (int d = 0; d < depth; ++d) sum += coefficient[d] > 0 ? span[d] : 0;
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

void LinearScope::bind_zero(const Var* var) {
  LinearIndex zero;
  zero.clear(0);
  bind(var, zero);
}

void LinearScope::bind(const Var* var, const LinearIndex& value) {
  Meaning& known = meaning(var);
  if (known.tag != Meaning::Tag::Value) {
    if (used_values_ == values_.size()) values_.emplace_back();
    known = {Meaning::Tag::Value, static_cast<int>(used_values_++), 0};
  }
  values_[static_cast<std::size_t>(known.index)].copy(value);
}

void LinearScope::evaluate(const Expr* expr, int depth, LinearIndex& out) const {
  out.clear(depth);
  switch (expr->kind) {
    case Kind::IntImm:
      out.constant = static_cast<double>(static_cast<const IntImm*>(expr)->value);
      return;
    case Kind::Cast:
      return evaluate(static_cast<const Cast*>(expr)->value, depth, out);
    case Kind::Binary:
      return evaluate_binary(static_cast<const Binary*>(expr), depth, out);
    case Kind::Select:
      return evaluate(static_cast<const Select*>(expr)->then, depth, out);
    case Kind::Var:
      break;
    default:
      out.irregular = true;
      return;
  }
  u32 id = static_cast<const Var*>(expr)->id;
  Meaning known = id < meanings_.size() ? meanings_[id] : Meaning{};
  if (known.tag == Meaning::Tag::Loop) {
    out.coefficient[known.index] = 1;
    out.span[known.index] = known.span;
  } else if (known.tag == Meaning::Tag::Value) {
    const LinearIndex& value = values_[static_cast<std::size_t>(known.index)];
    out.constant = value.constant;
    out.irregular = value.irregular;
    out.ops = value.ops;
    std::copy_n(value.coefficient, value.depth, out.coefficient);
    std::copy_n(value.span, value.depth, out.span);
  }
}

void LinearScope::evaluate_binary(const Binary* expr, int depth, LinearIndex& out) const {
  evaluate(expr->a, depth, out);
  LinearIndex b;
  evaluate(expr->b, depth, b);
  bool a_fixed = is_fixed(out), b_fixed = is_fixed(b);
  i64 by = static_cast<i64>(b.constant);
  switch (expr->op) {
    case BinaryOp::Add:
      add_scaled(out, b, 1);
      break;
    case BinaryOp::Sub:
      add_scaled(out, b, -1);
      break;
    case BinaryOp::Mul: {
      if (!a_fixed && !b_fixed) out.irregular = true;
      const LinearIndex& moving = a_fixed ? b : out;
      double factor = a_fixed ? out.constant : b.constant;
      LinearIndex product;
      product.clear(depth);
      add_scaled(product, moving, factor);
      add(product.ops, a_fixed ? out.ops : b.ops);
      product.irregular |= out.irregular;
      out.copy(product);
      break;
    }
    case BinaryOp::FloorDiv:
      add(out.ops, b.ops);
      if (b_fixed && by > 0)
        divide(out, by);
      else
        out.irregular = true;
      break;
    case BinaryOp::FloorMod:
      add(out.ops, b.ops);
      if (b_fixed && by > 0)
        take_modulo(out, by);
      else
        out.irregular = true;
      break;
    default:  // Min and Max move as their moving operand does
      add(b.ops, out.ops);
      if (a_fixed)
        out.copy(b);
      else
        out.ops = b.ops;
  }
  at(out.ops, op_of(expr->op, DType::I64)) += 1;
}

double LinearScope::share(const Expr* condition, int depth) const {
  if (auto* unary = as<Unary>(condition)) return unary->op == UnaryOp::Not ? 1 - share(unary->value, depth) : 1;
  auto* binary = as<Binary>(condition);
  if (!binary) return 1;
  if (binary->op == BinaryOp::And) return share(binary->a, depth) * share(binary->b, depth);
  if (binary->op == BinaryOp::Or) return 1 - (1 - share(binary->a, depth)) * (1 - share(binary->b, depth));
  LinearIndex difference, b;
  evaluate(binary->a, depth, difference);
  evaluate(binary->b, depth, b);
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
