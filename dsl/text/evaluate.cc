#include "dsl/text/evaluate.h"

#include <algorithm>
#include <limits>

#include "dsl/analysis/affine.h"
#include "dsl/base/text.h"
#include "dsl/text/lexer.h"

namespace tw::instantiation {
namespace {

struct IntegerFunction {
  std::string_view name;
  i64 (*apply)(i64, i64);
  bool divides;
};
constexpr IntegerFunction kFunctions[] = {
    {"min", [](i64 a, i64 b) { return std::min(a, b); }, false},
    {"max", [](i64 a, i64 b) { return std::max(a, b); }, false},
    {"ceildiv", [](i64 a, i64 b) { return floor_div(a, b) + (a % b != 0); }, true}};

class IntegerEvaluator {
 public:
  IntegerEvaluator(const Names& scope, Errors& errors) : scope_(scope), errors_(errors) {}

  std::optional<i64> operator()(const ast::Expr* e) {
    if (auto* n = ast::as<ast::Int>(e)) return n->value;
    if (auto* n = ast::as<ast::Bool>(e)) return n->value;
    if (auto* n = ast::as<ast::Name>(e)) return name(n);
    if (auto* n = ast::as<ast::Unary>(e)) return unary(n);
    if (auto* n = ast::as<ast::Binary>(e)) return binary(n);
    if (auto* n = ast::as<ast::Call>(e)) return call(n);
    if (auto* n = ast::as<ast::If>(e)) {
      std::optional<i64> condition = (*this)(n->condition);
      return condition ? (*this)(*condition ? n->then : n->otherwise) : std::nullopt;
    }
    return fail(e->span, cat("expected an integer, found `", ast::to_string(e), "`"));
  }

 private:
  std::nullopt_t fail(Span span, std::string message, std::string note = "") {
    errors_(span, std::move(message), std::move(note));
    return std::nullopt;
  }

  std::optional<i64> name(const ast::Name* n) {
    const Meaning* meaning = scope_.find(n->name);
    if (!meaning) {
      report_unknown(n, scope_, errors_);
      return std::nullopt;
    }
    if (const i64* value = std::get_if<i64>(meaning)) return *value;
    return fail(n->span, cat("expected an integer, found `", n->name, "`"), "only parameters and lets are known here");
  }

  std::optional<i64> unary(const ast::Unary* n) {
    std::optional<i64> value = (*this)(n->value);
    if (!value) return std::nullopt;
    if (n->op == UnaryOp::Not) return !*value;
    if (*value == std::numeric_limits<i64>::min()) return fail(n->span, "this integer overflows");
    return -*value;
  }

  std::optional<i64> binary(const ast::Binary* n) {
    std::optional<i64> a = (*this)(n->a), b = (*this)(n->b);
    if (!a || !b) return std::nullopt;
    switch (n->op) {
      case BinaryOp::Add:
      case BinaryOp::Sub:
      case BinaryOp::Mul:
        return checked(n, *a, *b);
      case BinaryOp::Div:
        return fail(n->op_span, "`/` divides floats", "integers divide with `//`");
      case BinaryOp::FloorDiv:
        return divisible(n, *a, *b) ? std::optional(floor_div(*a, *b)) : std::nullopt;
      case BinaryOp::FloorMod:
        return divisible(n, *a, *b) ? std::optional(*a - floor_div(*a, *b) * *b) : std::nullopt;
      case BinaryOp::Lt:
        return *a < *b;
      case BinaryOp::Le:
        return *a <= *b;
      case BinaryOp::Gt:
        return *a > *b;
      case BinaryOp::Ge:
        return *a >= *b;
      case BinaryOp::Eq:
        return *a == *b;
      case BinaryOp::Ne:
        return *a != *b;
      case BinaryOp::And:
        return *a && *b;
      case BinaryOp::Or:
        return *a || *b;
      default:
        return std::nullopt;
    }
  }

  std::optional<i64> checked(const ast::Binary* n, i64 a, i64 b) {
    i64 out = 0;
    bool overflow = n->op == BinaryOp::Add   ? __builtin_add_overflow(a, b, &out)
                    : n->op == BinaryOp::Sub ? __builtin_sub_overflow(a, b, &out)
                                             : __builtin_mul_overflow(a, b, &out);
    if (overflow) return fail(n->span, "this integer overflows");
    return out;
  }
  bool divisible(const ast::Binary* n, i64 a, i64 b) {
    if (b == 0)
      fail(n->op_span, cat("`", name_of(n->op), "` divides by zero"));
    else if (b == -1 && a == std::numeric_limits<i64>::min())
      fail(n->span, "this integer overflows");
    else
      return true;
    return false;
  }

  std::optional<i64> call(const ast::Call* n) {
    auto* callee = ast::as<ast::Name>(n->callee);
    if (callee && callee->name == "is_float" && n->arguments.size() == 1) {
      std::optional<DType> type = evaluate_type(n->arguments[0].value, scope_, errors_);
      return type ? std::optional<i64>(is_float(*type)) : std::nullopt;
    }
    for (const IntegerFunction& f : kFunctions) {
      if (!callee || callee->name != f.name) continue;
      if (n->arguments.size() != 2)
        return fail(n->span, cat("`", f.name, "` takes 2 arguments, found ", n->arguments.size()));
      std::optional<i64> a = (*this)(n->arguments[0].value), b = (*this)(n->arguments[1].value);
      if (!a || !b) return std::nullopt;
      if (f.divides && *b <= 0) return fail(n->span, cat("`", f.name, "` divides by ", *b));
      return f.apply(*a, *b);
    }
    return fail(n->callee->span, cat("expected an integer, found a call of `", ast::to_string(n->callee), "`"),
                "integers know min, max, ceildiv and is_float");
  }

  const Names& scope_;
  Errors& errors_;
};

}  // namespace

const Meaning* Names::find(std::string_view name) const {
  auto at = names_.find(name);
  if (at != names_.end()) return &at->second;
  return outer_ ? outer_->find(name) : nullptr;
}

std::vector<std::string> Names::all() const {
  std::vector<std::string> list = outer_ ? outer_->all() : std::vector<std::string>();
  for (const auto& [name, meaning] : names_) list.push_back(name);
  return list;
}

bool Errors::full() const { return count_ >= kMaxErrors; }

void Errors::operator()(Span span, std::string message, std::string note) {
  if (count_ < kMaxErrors) diagnostics_.error(blamed_.value_or(span), std::move(message), std::move(note));
  ++count_;
}

void report_unknown(const ast::Name* name, const Names& scope, Errors& errors) {
  std::string near = closest(name->name, scope.all());
  errors(name->span, cat("unknown name `", name->name, "`"), near.empty() ? "" : cat("did you mean `", near, "`?"));
}

std::optional<i64> evaluate_integer(const ast::Expr* expr, const Names& scope, Errors& errors) {
  return IntegerEvaluator(scope, errors)(expr);
}

std::optional<DType> evaluate_type(const ast::Expr* expr, const Names& scope, Errors& errors) {
  if (auto* name = ast::as<ast::Name>(expr)) {
    const Meaning* meaning = scope.find(name->name);
    if (meaning && std::holds_alternative<DType>(*meaning)) return std::get<DType>(*meaning);
    if (std::optional<DType> type = parse_dtype(name->name)) return type;
  }
  auto* call = ast::as<ast::Call>(expr);
  auto* callee = call ? ast::as<ast::Name>(call->callee) : nullptr;
  if (callee && call->arguments.size() == 1 && (callee->name == "accumulator" || callee->name == "result")) {
    std::optional<DType> type = evaluate_type(call->arguments[0].value, scope, errors);
    if (!type) return std::nullopt;
    return callee->name == "result" && is_float(*type) ? *type : te::arithmetic_type(*type);
  }
  errors(expr->span, cat("expected a type, found `", ast::to_string(expr), "`"),
         "types are f64 f32 f16 bf16 i64 i32 i8 u8 bool");
  return std::nullopt;
}

}  // namespace tw::instantiation
