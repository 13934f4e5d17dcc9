// One lane of an expression.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "backends/gpu_source/index_width.h"
#include "backends/gpu_source/printer.h"
#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"

namespace tw::gpu {
namespace {

bool is_narrow(DType type) { return type == DType::I8 || type == DType::U8; }

const char* operator_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
      return " + ";
    case BinaryOp::Sub:
      return " - ";
    case BinaryOp::Mul:
      return " * ";
    case BinaryOp::Div:
      return " / ";
    case BinaryOp::Lt:
      return " < ";
    case BinaryOp::Le:
      return " <= ";
    case BinaryOp::Gt:
      return " > ";
    case BinaryOp::Ge:
      return " >= ";
    case BinaryOp::Eq:
      return " == ";
    case BinaryOp::Ne:
      return " != ";
    case BinaryOp::And:
      return " && ";
    case BinaryOp::Or:
      return " || ";
    default:
      return nullptr;
  }
}

}  // namespace

std::string KernelPrinter::scalar(const Expr* e, int lane) {
  switch (e->kind) {
    case Kind::IntImm:
    case Kind::FloatImm:
      return number(e);
    case Kind::Var:
      return name(static_cast<const Var*>(e));
    case Kind::Ramp: {
      auto* ramp = static_cast<const Ramp*>(e);
      if (lane == 0) return scalar(ramp->base);
      std::optional<i64> stride = constant_of(ramp->stride);
      std::string offset = stride ? std::to_string(*stride * lane) : cat(scalar(ramp->stride), " * ", lane);
      return cat("(", bare(scalar(ramp->base)), " + ", offset, ")");
    }
    case Kind::Broadcast:
      return scalar(static_cast<const Broadcast*>(e)->value);
    case Kind::Cast: {
      auto* cast = static_cast<const Cast*>(e);
      std::string value = wide(cast->value, lane);
      if (is_half(e->type.dtype)) return narrowed(e->type.dtype, 1, cat("(float)", value));
      if (e->type.dtype == DType::Bool) return cat("(", value, " != 0)");
      return cat("(", type(e->type.dtype, 1), ")", value);
    }
    case Kind::Unary: {
      auto* unary = static_cast<const Unary*>(e);
      std::string text = cat("(", unary->op == UnaryOp::Not ? "!" : "-", wide(unary->value, lane), ")");
      return is_half(e->type.dtype) ? narrowed(e->type.dtype, 1, text) : text;
    }
    case Kind::Binary:
      return scalar_binary(static_cast<const Binary*>(e), lane);
    case Kind::Select: {
      auto* select = static_cast<const Select*>(e);
      if (auto ahead = loaded_.find(e); ahead != loaded_.end()) return lane_of(e, ahead->second, lane);
      return cat("(", scalar(select->condition, lane), " ? ", scalar(select->then, lane), " : ",
                 scalar(select->otherwise, lane), ")");
    }
    case Kind::Call:
      return scalar_call(static_cast<const Call*>(e), lane);
    case Kind::Load:
      if (auto given = given_.find(static_cast<const Load*>(e)); given != given_.end()) return given->second;
      if (auto ahead = loaded_.find(e); ahead != loaded_.end()) return lane_of(e, ahead->second, lane);
      return element(static_cast<const Load*>(e)->buffer, static_cast<const Load*>(e)->indices[0], lane);
    default:
      break;
  }
  TW_CHECK(false, "an expression that lowering does not make");
}

std::string KernelPrinter::scalar_with(const Expr* e, const std::map<const Load*, std::string>& values) {
  given_ = values;
  std::string out = scalar(e);
  given_.clear();
  return out;
}

std::string KernelPrinter::float_text(double value, DType type) const {
  if (std::isnan(value)) return language_.nan;
  if (std::isinf(value)) return cat(value < 0 ? "(-" : "(", language_.infinity, ")");
  char text[48];
  std::snprintf(text, sizeof text, type == DType::F32 ? "%.9g" : "%.17g", value);
  std::string out = text;
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  if (type == DType::F32) out += "f";
  return value < 0 || std::signbit(value) ? cat("(", out, ")") : out;
}

std::string KernelPrinter::number(const Expr* e) {
  const IntImm* integer = as<IntImm>(e);
  if (is_half(e->type.dtype)) {
    double value = integer ? static_cast<double>(integer->value) : as<FloatImm>(e)->value;
    return narrowed(e->type.dtype, 1, float_text(value));
  }
  if (e->type.dtype == DType::F32 || e->type.dtype == DType::F64) {
    double value = integer ? static_cast<double>(integer->value) : as<FloatImm>(e)->value;
    return float_text(value, e->type.dtype);
  }
  i64 value = integer ? integer->value : static_cast<i64>(as<FloatImm>(e)->value);
  std::string out = std::to_string(value);
  if (value > INT32_MAX || value < INT32_MIN) out += "L";
  return value < 0 ? cat("(", out, ")") : out;
}

std::string KernelPrinter::combined(BinaryOp op, DType type, const std::string& a, const std::string& b) {
  bool picks = op == BinaryOp::Min || op == BinaryOp::Max;
  return picks ? cat(pick(op, type, 1), "(", bare(a), ", ", bare(b), ")") : cat("(", a, operator_of(op), b, ")");
}

// By a constant is exact: mostly a product.
bool KernelPrinter::divides_fast(const Binary* e) const {
  const Expr* by = e->b;
  if (const Broadcast* all = as<Broadcast>(by)) by = all->value;
  bool is_float = e->type.dtype == DType::F32 || is_half(e->type.dtype);
  return language_.divide && e->op == BinaryOp::Div && is_float && !as<FloatImm>(by) && !as<IntImm>(by);
}

std::string KernelPrinter::quotient(const std::string& a, const std::string& b) {
  define("tw_divide", language_.divide);
  return cat("tw_divide(", bare(a), ", ", bare(b), ")");
}

std::string KernelPrinter::scalar_binary(const Binary* e, int lane) {
  if (e->op == BinaryOp::FloorDiv || e->op == BinaryOp::FloorMod) return divide(e, lane);
  std::string a = wide(e->a, lane), b = wide(e->b, lane);
  if (is_half(e->type.dtype))
    return narrowed(e->type.dtype, 1, divides_fast(e) ? quotient(a, b) : combined(e->op, DType::F32, a, b));
  if (divides_fast(e)) return quotient(a, b);
  if (e->op == BinaryOp::Min || e->op == BinaryOp::Max) return combined(e->op, e->type.dtype, a, b);
  std::string text = combined(e->op, e->type.dtype, a, b);
  return is_narrow(e->type.dtype) ? cat("(", type(e->type.dtype, 1), ")", text) : text;
}

bool KernelPrinter::is_nonnegative(const Expr* e) const {
  if (const Broadcast* all = as<Broadcast>(e)) e = all->value;
  if (const Ramp* ramp = as<Ramp>(e)) {
    std::optional<i64> stride = constant_of(ramp->stride);
    return stride && *stride >= 0 && is_nonnegative(ramp->base);
  }
  if (e->type.lanes != 1) return false;
  std::optional<Interval> range = interval_of(e, ranges_);
  return range && range->min >= 0;
}

std::string KernelPrinter::divide(const Binary* e, int lane) {
  if (const std::string* counted = copies_.counted_version(e)) return *counted;
  bool is_quotient = e->op == BinaryOp::FloorDiv;
  std::string a = scalar(e->a, lane), b = scalar(e->b, lane);
  if (e->type.dtype == DType::U8 || (is_nonnegative(e->a) && is_nonnegative(e->b)))
    return cat("(", a, is_quotient ? " / " : " % ", b, ")");
  bool is_index = e->type.dtype == DType::I64 && index_type_ == "int" && is_of_loops(e);
  std::string t = is_index ? std::string("int") : type(e->type.dtype, 1);
  std::string name = cat("tw_floor_", is_quotient ? "div_" : "mod_",
                         t == "long long"     ? "long"
                         : t == "signed char" ? "char"
                                              : t);
  std::string result = is_quotient ? "q - (r != 0 && (r < 0) != (b < 0))" : "r != 0 && (r < 0) != (b < 0) ? r + b : r";
  return cat(helper(name, cat(t, " ", name, "(", t, " a, ", t, " b) {\n  ", t, " q = a / b, r = a - q * b;\n  return ",
                              result, ";\n}\n")),
             "(", bare(a), ", ", bare(b), ")");
}

void KernelPrinter::define(const std::string& name, const std::string& text) {
  bool is_known = std::any_of(helpers_.begin(), helpers_.end(), [&](const auto& known) { return known.first == name; });
  if (!is_known) helpers_.emplace_back(name, text);
}

std::string KernelPrinter::helper(const std::string& name, const std::string& definition) {
  define(name, cat(language_.function_prefix, definition));
  return name;
}

// `a < b ? a : b`, as the IR defines it: the second operand if one is a NaN.
std::string KernelPrinter::pick(BinaryOp op, DType dtype, int lanes) {
  std::string t = type(dtype, lanes);
  std::string name = cat("tw_", op == BinaryOp::Min ? "min_" : "max_", t == "long long" ? "long" : t);
  for (char& c : name) c = c == ' ' ? '_' : c;
  std::string condition = cat("a ", op == BinaryOp::Min ? "<" : ">", " b");
  return helper(name, cat(t, " ", name, "(", t, " a, ", t, " b) { return ",
                          lanes == 1 ? cat(condition, " ? a : b") : cat("select(b, a, ", condition, ")"), "; }\n"));
}

std::string KernelPrinter::sigmoid(DType dtype, int lanes) {
  std::string t = type(dtype, lanes), name = cat("tw_sigmoid_", t);
  std::string one = dtype == DType::F32 ? "1.0f" : "1.0";
  std::string divisor = cat(one, " + ", function_name(language_, Function::Exp, dtype), "(-x)");
  bool is_fast = language_.divide && dtype == DType::F32;
  return helper(name, cat(t, " ", name, "(", t, " x) { return ",
                          is_fast ? quotient(one, divisor) : cat(one, " / (", divisor, ")"), "; }\n"));
}

std::string KernelPrinter::scalar_call(const Call* e, int lane) {
  if (combined_by(e->function)) return reduce(e);
  std::vector<std::string> arguments;
  for (const Expr* argument : e->arguments) arguments.push_back(bare(wide(argument, lane)));
  DType type = is_half(e->type.dtype) ? DType::F32 : e->type.dtype;
  std::string name = e->function == Function::Sigmoid ? sigmoid(type, 1) : function_name(language_, e->function, type);
  std::string text = cat(name, "(", join(arguments, ", "), ")");
  return is_half(e->type.dtype) ? narrowed(e->type.dtype, 1, text) : text;
}

// The lanes of a vector in a tree.
std::string KernelPrinter::reduce(const Call* e) {
  const Expr* argument = e->arguments[0];
  int lanes = argument->type.lanes;
  BinaryOp op = *combined_by(e->function);
  auto combine = [&](const std::string& a, const std::string& b) {
    if (!is_half(e->type.dtype)) return combined(op, e->type.dtype, a, b);
    return narrowed(e->type.dtype, 1,
                    combined(op, DType::F32, widened(e->type.dtype, 1, a), widened(e->type.dtype, 1, b)));
  };
  auto tree = [&](std::vector<std::string> parts) {
    while (parts.size() > 1) {
      std::vector<std::string> next;
      std::size_t half = parts.size() / 2;
      for (std::size_t i = 0; i < half; ++i) next.push_back(combine(parts[i], parts[i + half]));
      if (parts.size() % 2) next.push_back(parts.back());
      parts = std::move(next);
    }
    return parts[0];
  };
  std::vector<std::string> parts;
  if (!language_.has_vectors || lanes == 1 || is_half(e->type.dtype) || !has_vector_form(argument)) {
    for (int i = 0; i < lanes; ++i) parts.push_back(scalar(argument, i));
    return tree(parts);
  }
  std::string t = type(e->type.dtype, lanes), name = cat("tw_",
                                                         op == BinaryOp::Add   ? "sum_"
                                                         : op == BinaryOp::Mul ? "product_"
                                                         : op == BinaryOp::Min ? "least_"
                                                                               : "largest_",
                                                         t);
  for (int i = 0; i < lanes; ++i) parts.push_back(cat("v.s", "0123456789abcdef"[i]));
  return cat(helper(name, cat(type(e->type.dtype, 1), " ", name, "(", t, " v) { return ", bare(tree(parts)), "; }\n")),
             "(", bare(vector(argument)), ")");
}

std::string KernelPrinter::element(const Buffer* buffer, const Expr* index, int lane) {
  Place& found = place(buffer);
  if (found.pieces.empty()) return cat(found.name, "[", in_memory(found, buffer->dtype, index, lane), "]");
  const Ramp* ramp = as<Ramp>(index);
  i64 position = ramp ? *constant_of(ramp->base) + lane * *constant_of(ramp->stride) : *constant_of(index);
  std::optional<Piece> piece = piece_at(buffer, position);
  TW_CHECK(piece, "a register that no access mentions");
  return piece->lanes == 1 ? piece->name : cat(piece->name, ".s", "0123456789abcdef"[position - piece->offset]);
}

}  // namespace tw::gpu
