// Scalar values of tensor expressions: types, widening, folding of literals. See te.h for the rules.
#include <algorithm>
#include <cmath>
#include <limits>

#include "dsl/base/text.h"
#include "dsl/ir/comparison.h"
#include "dsl/te/te.h"

namespace tw::te {
namespace {

// Integer literals stay exact as doubles, and sums of a thousand of them stay in i64.
constexpr i64 kMaxLiteral = i64{1} << 53;

bool is_logical(BinaryOp op) { return op == BinaryOp::And || op == BinaryOp::Or; }
bool is_integer_literal(const Value& v) { return v.literal && v.expr->kind == Kind::IntImm; }

double number_of(const Value& v) {
  const IntImm* integer = as<IntImm>(v.expr);
  return integer ? static_cast<double>(integer->value) : as<FloatImm>(v.expr)->value;
}

// The type of both operands, before the operation.
DType common_type(BinaryOp op, const Value& a, const Value& b) {
  if (a.literal && b.literal) {
    bool integers = is_integer_literal(a) && is_integer_literal(b) && op != BinaryOp::Div;
    return integers ? DType::I64 : DType::F32;
  }
  if (!a.literal && !b.literal) return widened(a.dtype(), b.dtype());
  const Value& typed = a.literal ? b : a;
  const Value& number = a.literal ? a : b;
  DType type = arithmetic_type(typed.dtype());
  if (is_int(type) && (!is_integer_literal(number) || op == BinaryOp::Div)) return DType::F32;
  return type;
}

// Integer arithmetic of literals; nothing if it overflows or divides by zero.
std::optional<i64> fold_integers(BinaryOp op, i64 a, i64 b) {
  i64 out = 0;
  switch (op) {
    case BinaryOp::Add:
      return a + b;
    case BinaryOp::Sub:
      return a - b;
    case BinaryOp::Mul:
      return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case BinaryOp::FloorDiv:
      return b == 0 ? std::nullopt : std::optional(a / b - (a % b != 0 && (a < 0) != (b < 0)));
    case BinaryOp::FloorMod:
      return b == 0 ? std::nullopt : std::optional(((a % b) + b) % b);
    case BinaryOp::Min:
      return std::min(a, b);
    case BinaryOp::Max:
      return std::max(a, b);
    default:
      return std::nullopt;
  }
}

double fold_floats(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::Add:
      return a + b;
    case BinaryOp::Sub:
      return a - b;
    case BinaryOp::Mul:
      return a * b;
    case BinaryOp::Div:
      return a / b;
    case BinaryOp::Min:
      return a < b ? a : b;
    default:
      return a > b ? a : b;
  }
}

Value fold_literals(BinaryOp op, const Value& a, const Value& b) {
  Build build{*a.arena};
  if (is_comparison(op)) return {a.arena, build.integer(holds(op, number_of(a), number_of(b)), DType::Bool)};
  if (common_type(op, a, b) == DType::F32) return literal(*a.arena, fold_floats(op, number_of(a), number_of(b)));
  return literal(*a.arena, *fold_integers(op, as<IntImm>(a.expr)->value, as<IntImm>(b.expr)->value));
}

std::string expected(const char* what, std::string_view at, const Value& found) {
  return cat("expected ", what, " at `", at, "`, found ", name_of(found.dtype()));
}

std::string problem_of_literals(BinaryOp op, const Value& a, const Value& b) {
  if (is_comparison(op) || common_type(op, a, b) == DType::F32) return "";
  i64 x = as<IntImm>(a.expr)->value, y = as<IntImm>(b.expr)->value;
  if ((op == BinaryOp::FloorDiv || op == BinaryOp::FloorMod) && y == 0)
    return cat("`", name_of(op), "` divides by zero");
  std::optional<i64> folded = fold_integers(op, x, y);
  return folded && std::abs(*folded) <= kMaxLiteral ? "" : "this constant is out of range";
}

// Does `wide` hold every value of `narrow`?
bool holds(DType wide, DType narrow) {
  if (is_half(narrow)) return wide == DType::F32 || wide == DType::F64;
  if (narrow == DType::F32) return wide == DType::F64;
  if (narrow == DType::I8 || narrow == DType::U8) return wide == DType::I32 || wide == DType::I64 || wide >= DType::F32;
  return narrow == DType::I32 && (wide == DType::I64 || wide == DType::F64);
}

// `e` as a `type` if nothing was computed since it was widened from that type: f16(f32(x)) of an f16 x is x. So that
// copies and paddings of narrow types stay copies. Null if something was computed.
const Expr* without_widening(const Build& build, DType type, const Expr* e) {
  if (e->type.dtype == type) return e;
  if (const Cast* cast = as<Cast>(e))
    return cast->value->type.dtype == type && holds(cast->type.dtype, type) ? cast->value : nullptr;
  if (const IntImm* imm = as<IntImm>(e)) {
    bool fits =
        is_int(type) && holds(e->type.dtype, type) && imm->value >= lowest_of(type) && imm->value <= highest_of(type);
    return fits ? build.integer(imm->value, type) : nullptr;
  }
  if (e->kind == Kind::FloatImm) return is_float(type) ? build.cast(type, e) : nullptr;
  const Select* select = as<Select>(e);
  const Expr* then = select ? without_widening(build, type, select->then) : nullptr;
  const Expr* otherwise = then ? without_widening(build, type, select->otherwise) : nullptr;
  return otherwise ? build.select(select->condition, then, otherwise) : nullptr;
}

i64 saturated(double value) {
  if (std::isnan(value)) return 0;
  return static_cast<i64>(std::clamp(value, -0x1p62, 0x1p62));
}

}  // namespace

i64 highest_of(DType type) {
  switch (type) {
    case DType::Bool:
      return 1;
    case DType::I8:
      return std::numeric_limits<std::int8_t>::max();
    case DType::U8:
      return std::numeric_limits<std::uint8_t>::max();
    case DType::I32:
      return std::numeric_limits<std::int32_t>::max();
    default:
      return std::numeric_limits<i64>::max();
  }
}

DType arithmetic_type(DType type) {
  if (is_half(type)) return DType::F32;
  return type == DType::Bool || type == DType::I8 || type == DType::U8 ? DType::I32 : type;
}

DType widened(DType a, DType b) { return std::max(arithmetic_type(a), arithmetic_type(b)); }

Value literal(Arena& arena, i64 value) { return {&arena, Build{arena}.integer(value), true}; }
Value literal(Arena& arena, double value) { return {&arena, Build{arena}.number(value, DType::F32), true}; }

std::string problem(BinaryOp op, const Value& a, const Value& b) {
  if (is_logical(op)) {
    for (const Value* side : {&a, &b}) {
      if (side->dtype() != DType::Bool) return expected("conditions", name_of(op), *side);
    }
    return "";
  }
  if (op == BinaryOp::FloorDiv || op == BinaryOp::FloorMod) {
    for (const Value* side : {&a, &b}) {
      if (is_float(side->dtype())) return expected("integers", name_of(op), *side);
    }
    if (is_constant(b.expr, 0)) return cat("`", name_of(op), "` divides by zero");
  }
  if (a.literal && b.literal) return problem_of_literals(op, a, b);
  bool integers = is_int(a.dtype()) && is_int(b.dtype());
  if (op == BinaryOp::Div && integers) return expected("floats", "/", a) + "; `//` divides integers";
  return "";
}

std::string problem(UnaryOp op, const Value& value) {
  return op == UnaryOp::Not && value.dtype() != DType::Bool ? expected("a condition", "not", value) : "";
}

std::string problem_of_condition(const Value& condition) {
  return condition.dtype() == DType::Bool ? "" : cat("expected a condition, found ", name_of(condition.dtype()));
}

std::string problem_of_index(const Value& index) {
  return is_float(index.dtype()) ? cat("expected an integer as index, found ", name_of(index.dtype())) : "";
}

Value binary(BinaryOp op, const Value& a, const Value& b) {
  TW_CHECK(problem(op, a, b).empty(), "operands of wrong types");
  Build build{*a.arena};
  if (is_logical(op)) return {a.arena, build.binary(op, a.expr, b.expr)};
  if (a.literal && b.literal) return fold_literals(op, a, b);
  DType type = common_type(op, a, b);
  return {a.arena, build.binary(op, convert(type, a).expr, convert(type, b).expr)};
}

Value unary(UnaryOp op, const Value& value) {
  TW_CHECK(problem(op, value).empty(), "operand of a wrong type");
  const Value wide = op == UnaryOp::Neg && !value.literal ? convert(arithmetic_type(value.dtype()), value) : value;
  return {value.arena, Build{*value.arena}.unary(op, wide.expr), value.literal};
}

Value call(Function function, std::vector<Value> arguments) {
  DType type = DType::F32;
  for (const Value& argument : arguments) {
    if (argument.dtype() == DType::F64) type = DType::F64;
  }
  if (function == Function::Abs && is_int(arguments[0].dtype())) type = arithmetic_type(arguments[0].dtype());
  std::vector<const Expr*> exprs;
  for (const Value& argument : arguments) exprs.push_back(convert(type, argument).expr);
  Arena& arena = *arguments[0].arena;
  return {&arena, Build{arena}.call(function, arena.copy(exprs))};
}

Value select(const Value& condition, const Value& then, const Value& otherwise) {
  TW_CHECK(problem_of_condition(condition).empty(), "condition of a wrong type");
  if (std::optional<i64> known = constant_of(condition.expr)) return *known ? then : otherwise;
  bool conditions = then.dtype() == DType::Bool && otherwise.dtype() == DType::Bool;
  DType type = conditions ? DType::Bool : common_type(BinaryOp::Max, then, otherwise);
  Build build{*condition.arena};
  return {condition.arena, build.select(condition.expr, convert(type, then).expr, convert(type, otherwise).expr)};
}

Value convert(DType type, const Value& value) {
  Build build{*value.arena};
  if (value.literal) {
    const IntImm* integer = as<IntImm>(value.expr);
    if (is_float(type)) return {value.arena, build.number(number_of(value), type)};
    return {value.arena, build.integer(integer ? integer->value : saturated(number_of(value)), type)};
  }
  if (const Expr* exact = without_widening(build, type, value.expr)) return {value.arena, exact};
  return {value.arena, build.cast(type, value.expr)};
}

Value load(Arena& arena, const Buffer* buffer, const std::vector<Value>& indices) {
  TW_CHECK(indices.size() == buffer->shape.size(), "wrong number of indices");
  std::vector<const Expr*> exprs;
  for (const Value& index : indices) {
    TW_CHECK(problem_of_index(index).empty(), "index of a wrong type");
    exprs.push_back(convert(DType::I64, index).expr);
  }
  Value value{&arena, Build{arena}.load(buffer, arena.copy(exprs))};
  return buffer->dtype == DType::Bool ? value : convert(arithmetic_type(buffer->dtype), value);
}

}  // namespace tw::te
