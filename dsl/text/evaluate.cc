#include "dsl/text/evaluate.h"

#include <algorithm>
#include <limits>

#include "dsl/analysis/affine.h"
#include "dsl/base/text.h"
#include "dsl/text/lexer.h"
#include "dsl/text/lists.h"

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

class ConstantEvaluator : public ListLanguage {
 public:
  using ListLanguage::item;
  using ListLanguage::ListLanguage;

  Found element(const ast::Expr* e, const Names& scope) override {
    switch (e->kind) {
      case ast::Kind::Int:
        return ast::as<ast::Int>(e)->value;
      case ast::Kind::Bool:
        return i64{ast::as<ast::Bool>(e)->value};
      case ast::Kind::Name:
        return name(ast::as<ast::Name>(e), scope);
      case ast::Kind::Unary:
        return unary(ast::as<ast::Unary>(e), scope);
      case ast::Kind::Binary:
        return binary(ast::as<ast::Binary>(e), scope);
      case ast::Kind::Call:
        return call(ast::as<ast::Call>(e), scope);
      case ast::Kind::Index:
        return index(ast::as<ast::Index>(e), scope);
      case ast::Kind::If: {
        auto* n = ast::as<ast::If>(e);
        std::optional<i64> condition = integer(n->condition, scope);
        return condition ? item(*condition ? n->then : n->otherwise, scope) : std::nullopt;
      }
      default:
        return fail(e->span, cat("expected an integer, found `", ast::to_string(e), "`"));
    }
  }

  std::optional<i64> integer(const ast::Expr* e, const Names& scope) {
    Found found = item(e, scope);
    return found ? integer(*found, e->span) : std::nullopt;
  }

 protected:
  Found combine(BinaryOp op, Span span, const Meaning& a, const Meaning& b) override {
    std::optional<i64> left = integer(a, span), right = integer(b, span);
    return left && right ? apply(op, span, span, *left, *right) : std::nullopt;
  }
  Meaning truth(bool value) override { return i64{value}; }

 private:
  std::optional<i64> integer(const Meaning& meaning, Span span) {
    if (const i64* value = std::get_if<i64>(&meaning)) return *value;
    return fail(span, "expected an integer, found a list");
  }

  Found name(const ast::Name* n, const Names& scope) {
    const Meaning* meaning = scope.find(n->name);
    if (!meaning) {
      report_unknown(n, scope, errors_);
      return std::nullopt;
    }
    if (std::holds_alternative<i64>(*meaning) || items_of(*meaning)) return *meaning;
    return fail(n->span, cat("expected an integer, found `", n->name, "`"), "only parameters and lets are known here");
  }

  Found index(const ast::Index* n, const Names& scope) {
    Found of = item(n->value, scope);
    if (!of) return std::nullopt;
    if (!items_of(*of)) return fail(n->value->span, "expected a list before `[`");
    return part(n, *of, scope);
  }

  Found unary(const ast::Unary* n, const Names& scope) {
    std::optional<i64> value = integer(n->value, scope);
    if (!value) return std::nullopt;
    if (n->op == UnaryOp::Not) return i64{!*value};
    if (*value == std::numeric_limits<i64>::min()) return fail(n->span, "this integer overflows");
    return -*value;
  }

  Found binary(const ast::Binary* n, const Names& scope) {
    Found a = item(n->a, scope), b = item(n->b, scope);
    if (!a || !b) return std::nullopt;
    if (n->op == BinaryOp::Add && (items_of(*a) || items_of(*b))) return joined(n->op_span, *a, *b);
    std::optional<i64> left = integer(*a, n->a->span), right = integer(*b, n->b->span);
    return left && right ? apply(n->op, n->span, n->op_span, *left, *right) : std::nullopt;
  }

  Found apply(BinaryOp op, Span whole, Span op_span, i64 a, i64 b) {
    switch (op) {
      case BinaryOp::Add:
      case BinaryOp::Sub:
      case BinaryOp::Mul:
        return checked(op, whole, a, b);
      case BinaryOp::Div:
        return fail(op_span, "`/` divides floats", "integers divide with `//`");
      case BinaryOp::FloorDiv:
        return divisible(op, whole, op_span, a, b) ? Found(floor_div(a, b)) : std::nullopt;
      case BinaryOp::FloorMod:
        return divisible(op, whole, op_span, a, b) ? Found(a - floor_div(a, b) * b) : std::nullopt;
      case BinaryOp::Min:
        return std::min(a, b);
      case BinaryOp::Max:
        return std::max(a, b);
      default:
        return i64{holds(op, a, b)};
    }
  }

  static bool holds(BinaryOp op, i64 a, i64 b) {
    switch (op) {
      case BinaryOp::Lt:
        return a < b;
      case BinaryOp::Le:
        return a <= b;
      case BinaryOp::Gt:
        return a > b;
      case BinaryOp::Ge:
        return a >= b;
      case BinaryOp::Eq:
        return a == b;
      case BinaryOp::Ne:
        return a != b;
      case BinaryOp::And:
        return a && b;
      default:
        return a || b;
    }
  }

  Found checked(BinaryOp op, Span whole, i64 a, i64 b) {
    i64 out = 0;
    bool overflow = op == BinaryOp::Add   ? __builtin_add_overflow(a, b, &out)
                    : op == BinaryOp::Sub ? __builtin_sub_overflow(a, b, &out)
                                          : __builtin_mul_overflow(a, b, &out);
    if (overflow) return fail(whole, "this integer overflows");
    return out;
  }
  bool divisible(BinaryOp op, Span whole, Span op_span, i64 a, i64 b) {
    if (b == 0)
      fail(op_span, cat("`", name_of(op), "` divides by zero"));
    else if (b == -1 && a == std::numeric_limits<i64>::min())
      fail(whole, "this integer overflows");
    else
      return true;
    return false;
  }

  Found call(const ast::Call* n, const Names& scope) {
    auto* callee = ast::as<ast::Name>(n->callee);
    if (callee && callee->name == "is_float" && n->arguments.size() == 1) {
      std::optional<DType> type = evaluate_type(n->arguments[0].value, scope, errors_);
      return type ? Found(i64{is_float(*type)}) : std::nullopt;
    }
    auto known =
        std::ranges::find_if(kFunctions, [&](const IntegerFunction& f) { return callee && f.name == callee->name; });
    bool is_known = known != std::end(kFunctions);
    if (!is_known && !(callee && is_list_function(callee->name))) {
      return fail(n->callee->span, cat("expected an integer, found a call of `", ast::to_string(n->callee), "`"),
                  "integers know min, max, ceildiv, is_float and the functions on lists");
    }
    std::vector<Meaning> arguments;
    for (const ast::Argument& argument : n->arguments) {
      Found found = item(argument.value, scope);
      if (!found) return std::nullopt;
      arguments.push_back(*found);
    }
    bool is_extremum = is_known && !known->divides && arguments.size() == 1 && items_of(arguments[0]);
    if (!is_known || is_extremum) return list_function(n, callee->name, arguments);
    if (arguments.size() != 2)
      return fail(n->span, cat("`", known->name, "` takes 2 arguments, found ", arguments.size()));
    std::optional<i64> a = integer(arguments[0], n->arguments[0].value->span);
    std::optional<i64> b = integer(arguments[1], n->arguments[1].value->span);
    if (!a || !b) return std::nullopt;
    if (known->divides && *b <= 0) return fail(n->span, cat("`", known->name, "` divides by ", *b));
    return known->apply(*a, *b);
  }
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

std::optional<Meaning> evaluate_constant(const ast::Expr* expr, const Names& scope, Errors& errors) {
  return ConstantEvaluator(errors).item(expr, scope);
}

std::optional<i64> evaluate_integer(const ast::Expr* expr, const Names& scope, Errors& errors) {
  return ConstantEvaluator(errors).integer(expr, scope);
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
