#include "dsl/text/lower_value.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "dsl/base/text.h"
#include "dsl/ir/walk.h"

namespace tw::instantiation {
namespace {

// Limits for texts from strangers: functions multiply what they are given.
constexpr int kMaxCallDepth = 64;
constexpr i64 kMaxNodes = 20'000;  // of one value, shared parts counted as often as they are printed
constexpr int kMaxExprHeight = 1'200;
constexpr i64 kMaxSteps = 4'000'000;  // of one instantiation
constexpr i64 kMaxLiteral = i64{1} << 53;

struct NamedNumber {
  std::string_view name;
  double value;
};
constexpr NamedNumber kNumbers[] = {{"inf", std::numeric_limits<double>::infinity()},
                                    {"nan", std::numeric_limits<double>::quiet_NaN()},
                                    {"pi", std::numbers::pi}};

// Counts nodes and height; stops counting above the limits.
struct Measure {
  i64 nodes = 0;
  int highest = 0;
  void add(const Node* node, int height) {
    highest = std::max(highest, height);
    if (++nodes > kMaxNodes || height > kMaxExprHeight) return;
    for_each_child(node, [&](const Node* child) { add(child, height + 1); });
  }
};

std::vector<std::string> builtin_names() {
  std::vector<std::string> names = {"min", "max"};
  for (int f = 0; f <= static_cast<int>(Function::Pow); ++f) names.push_back(name_of(static_cast<Function>(f)));
  return names;
}

}  // namespace

ValueLowering::ValueLowering(Arena& arena, const WorkloadModule& module, Errors& errors)
    : ListLanguage(errors),
      arena_(arena),
      module_(module),
      functions_of_(&module),
      visible_functions_(module.functions.size()) {}

std::optional<te::Value> ValueLowering::lower(const ast::Expr* expr, const Names& scope, std::optional<DType> read_as) {
  read_as_ = read_as;
  Maybe made = value(expr, scope);
  return made && small_enough(made->expr, expr->span) ? made : std::nullopt;
}

bool ValueLowering::small_enough(const Expr* expr, Span span) {
  Measure measure;
  measure.add(expr, 1);
  steps_ += measure.nodes;
  if (measure.nodes <= kMaxNodes && measure.highest <= kMaxExprHeight && steps_ <= kMaxSteps) return true;
  fail(span, "this expression is too large", "give a part of it a stage of its own");
  return false;
}

std::optional<te::Value> ValueLowering::value(const ast::Expr* e, const Names& scope) {
  Found found = item(e, scope);
  return found ? value_of(*found, e->span) : std::nullopt;
}

std::optional<te::Value> ValueLowering::value_of(const Meaning& meaning, Span span) {
  if (const i64* integer = std::get_if<i64>(&meaning)) return literal(*integer, span);
  if (const te::Value* value = std::get_if<te::Value>(&meaning)) return *value;
  return fail(span, "expected a value, found a list");
}

ListLanguage::Found ValueLowering::element(const ast::Expr* e, const Names& scope) {
  if (++steps_ > kMaxSteps) return fail(e->span, "this workload is too large");
  switch (e->kind) {
    case ast::Kind::Int:
      return literal(ast::as<ast::Int>(e)->value, e->span);
    case ast::Kind::Float:
      return te::literal(arena_, ast::as<ast::Float>(e)->value);
    case ast::Kind::Bool:
      return truth(ast::as<ast::Bool>(e)->value);
    case ast::Kind::Name:
      return name(ast::as<ast::Name>(e), scope);
    case ast::Kind::Unary:
      return unary(ast::as<ast::Unary>(e), scope);
    case ast::Kind::Binary:
      return binary(ast::as<ast::Binary>(e), scope);
    case ast::Kind::If:
      return select(ast::as<ast::If>(e), scope);
    case ast::Kind::Call:
      return call(ast::as<ast::Call>(e), scope);
    case ast::Kind::Index:
      return index(ast::as<ast::Index>(e), scope);
    default:
      return fail(e->span, cat("expected a value, found `", ast::to_string(e), "`"));
  }
}

ListLanguage::Found ValueLowering::combine(BinaryOp op, Span span, const Meaning& a, const Meaning& b) {
  Maybe left = value_of(a, span), right = value_of(b, span);
  if (!left || !right) return std::nullopt;
  std::string problem = te::problem(op, *left, *right);
  if (!problem.empty()) return fail(span, problem);
  return te::binary(op, *left, *right);
}

Meaning ValueLowering::truth(bool value) { return te::Value{&arena_, Build{arena_}.integer(value, DType::Bool)}; }

std::optional<te::Value> ValueLowering::literal(i64 integer, Span span) {
  if (integer > kMaxLiteral || integer < -kMaxLiteral)
    return fail(span, cat("the integer ", integer, " is above 2^53"));
  return te::literal(arena_, integer);
}

ListLanguage::Found ValueLowering::name(const ast::Name* e, const Names& scope) {
  const Meaning* meaning = scope.find(e->name);
  if (!meaning) {
    for (const NamedNumber& number : kNumbers) {
      if (number.name == e->name) return te::literal(arena_, number.value);
    }
    report_unknown(e, scope, errors_);
    return std::nullopt;
  }
  if (const i64* integer = std::get_if<i64>(meaning)) return literal(*integer, e->span);
  if (std::holds_alternative<te::Value>(*meaning) || items_of(*meaning)) return *meaning;
  if (std::holds_alternative<te::Tensor>(*meaning)) {
    return fail(e->span, cat("expected a value, found the buffer `", e->name, "`"),
                cat("an element is `", e->name, "[...]`"));
  }
  return fail(e->span, cat("expected a value, found `", e->name, "`"));
}

std::optional<te::Value> ValueLowering::unary(const ast::Unary* e, const Names& scope) {
  Maybe inner = value(e->value, scope);
  if (!inner) return std::nullopt;
  std::string problem = te::problem(e->op, *inner);
  if (!problem.empty()) return fail(e->span, problem);
  return te::unary(e->op, *inner);
}

ListLanguage::Found ValueLowering::binary(const ast::Binary* e, const Names& scope) {
  Found a = item(e->a, scope), b = item(e->b, scope);
  if (!a || !b) return std::nullopt;
  if (e->op == BinaryOp::Add && (items_of(*a) || items_of(*b))) return joined(e->op_span, *a, *b);
  return combine(e->op, e->op_span, *a, *b);
}

ListLanguage::Found ValueLowering::select(const ast::If* e, const Names& scope) {
  Maybe condition = value(e->condition, scope);
  if (!condition) return std::nullopt;
  std::string problem = te::problem_of_condition(*condition);
  if (!problem.empty()) return fail(e->condition->span, problem);
  // The parameters may decide: then the other side need not even make sense.
  if (std::optional<i64> known = constant_of(condition->expr)) return item(*known ? e->then : e->otherwise, scope);
  Maybe then = value(e->then, scope), otherwise = value(e->otherwise, scope);
  if (!then || !otherwise) return std::nullopt;
  return te::select(*condition, *then, *otherwise);
}

ListLanguage::Found ValueLowering::call(const ast::Call* e, const Names& scope) {
  auto* callee = ast::as<ast::Name>(e->callee);
  if (!callee) return fail(e->callee->span, "expected the name of a function");
  if (callee->name == "lowest" && e->arguments.size() == 1) {
    std::optional<DType> type = evaluate_type(e->arguments[0].value, scope, errors_);
    return type ? Found(te::Value{&arena_, Build{arena_}.number(lowest_of(*type), te::arithmetic_type(*type))})
                : std::nullopt;
  }
  std::vector<Meaning> arguments;
  for (const ast::Argument& argument : e->arguments) {
    if (!argument.name.empty()) return fail(argument.name_span, cat("`", callee->name, "` takes no named arguments"));
    Found made = item(argument.value, scope);
    if (!made) return std::nullopt;
    arguments.push_back(*made);
  }
  const Meaning* meaning = scope.find(callee->name);
  const DType* named = meaning ? std::get_if<DType>(meaning) : nullptr;
  std::optional<DType> type = named ? *named : parse_dtype(callee->name);
  if (!type) return builtin(e, callee->name, arguments);
  if (arguments.size() != 1)
    return fail(e->span, cat("the conversion `", callee->name, "` takes 1 argument, found ", arguments.size()));
  Maybe converted = value_of(arguments[0], e->span);
  return converted ? Found(te::convert(*type, *converted)) : std::nullopt;
}

ListLanguage::Found ValueLowering::builtin(const ast::Call* e, Str name, const std::vector<Meaning>& arguments) {
  std::optional<Function> function = parse_function(name);
  if (function && (combined_by(*function) || *function == Function::Within)) function.reset();  // not in workloads
  bool is_min = name == "min", is_max = name == "max";
  bool is_of_list = (is_min || is_max) && arguments.size() == 1 && items_of(arguments[0]);
  if (is_of_list || is_list_function(name)) return list_function(e, name, arguments);
  if (!function && !is_min && !is_max) return user_function(e, name, arguments);
  std::size_t arity = function ? static_cast<std::size_t>(arity_of(*function)) : 2;
  if (arguments.size() != arity) {
    return fail(e->span, cat("`", name, "` takes ", arity, arity == 1 ? " argument" : " arguments", ", found ",
                             arguments.size()));
  }
  std::vector<te::Value> values;
  for (const Meaning& argument : arguments) {
    Maybe one = value_of(argument, e->span);
    if (!one) return std::nullopt;
    values.push_back(*one);
  }
  if (function) return te::call(*function, values);
  return te::binary(is_min ? BinaryOp::Min : BinaryOp::Max, values[0], values[1]);
}

ListLanguage::Found ValueLowering::user_function(const ast::Call* e, Str name, const std::vector<Meaning>& arguments) {
  const WorkloadModule* home = functions_of_;
  auto find = [&](const WorkloadModule& module, std::size_t visible) {
    auto end = module.functions.begin() + static_cast<std::ptrdiff_t>(visible);
    auto at =
        std::find_if(module.functions.begin(), end, [&](const ast::FunctionText& f) { return f.name.name == name; });
    return at == end ? nullptr : &*at;
  };
  const ast::FunctionText* function = find(*home, visible_functions_);
  if (!function && home != &operator_library()) {
    home = &operator_library();
    function = find(*home, home->functions.size());
  }
  if (!function) {
    std::vector<std::string> known = builtin_names();
    for (std::size_t i = 0; i < visible_functions_; ++i)
      known.push_back(std::string(functions_of_->functions[i].name.name));
    for (const ast::FunctionText& f : operator_library().functions) known.push_back(std::string(f.name.name));
    std::string near = closest(name, known);
    return fail(e->callee->span, cat("unknown function `", name, "`"),
                near.empty() ? "" : cat("did you mean `", near, "`?"));
  }
  if (arguments.size() != function->parameters.size()) {
    return fail(e->span,
                cat("`", name, "` takes ", function->parameters.size(), " arguments, found ", arguments.size()));
  }
  if (depth_ >= kMaxCallDepth)
    return fail(e->span, cat("functions call each other more than ", kMaxCallDepth, " deep"));
  Names inside;
  for (std::size_t i = 0; i < arguments.size(); ++i) inside.add(function->parameters[i].name, arguments[i]);
  Errors::Blame blame(errors_, home != &module_ ? std::optional(e->span) : std::nullopt);
  const WorkloadModule* functions_before = std::exchange(functions_of_, home);
  std::size_t visible_before =
      std::exchange(visible_functions_, static_cast<std::size_t>(function - home->functions.data()));
  ++depth_;
  Found made = item(function->body, inside);
  --depth_;
  functions_of_ = functions_before;
  visible_functions_ = visible_before;
  const te::Value* value = made ? std::get_if<te::Value>(&*made) : nullptr;
  return !value || small_enough(value->expr, e->span) ? made : std::nullopt;
}

ListLanguage::Found ValueLowering::index(const ast::Index* e, const Names& scope) {
  auto* name = ast::as<ast::Name>(e->value);
  const Meaning* meaning = name ? scope.find(name->name) : nullptr;
  if (name && !meaning) {
    report_unknown(name, scope, errors_);
    return std::nullopt;
  }
  if (const te::Tensor* tensor = meaning ? std::get_if<te::Tensor>(meaning) : nullptr)
    return load(e, name->name, *tensor, scope);
  bool may_be_list = !name || items_of(*meaning);
  Found of = may_be_list ? item(e->value, scope) : std::nullopt;
  if (may_be_list && !of) return std::nullopt;
  if (of && items_of(*of)) return part(e, *of, scope);
  return fail(e->value->span,
              name ? cat("expected a buffer, found `", name->name, "`") : "expected the name of a buffer before `[`");
}

std::optional<te::Value> ValueLowering::load(const ast::Index* e, Str name, const te::Tensor& tensor,
                                             const Names& scope) {
  std::optional<std::vector<te::Value>> at = indices(e, scope);
  if (!at) return std::nullopt;
  std::size_t rank = tensor.buffer->shape.size();
  if (at->size() != rank) {
    return fail(e->span, cat("`", name, "` has ", rank, rank == 1 ? " dimension" : " dimensions", ", found ",
                             at->size(), at->size() == 1 ? " index" : " indices"));
  }
  te::Value loaded = te::load(arena_, tensor.buffer, *at);
  if (!read_as_ || loaded.dtype() == DType::Bool) return loaded;
  return te::convert(te::widened(loaded.dtype(), *read_as_), loaded);
}

// A list stands for several indices.
std::optional<std::vector<te::Value>> ValueLowering::indices(const ast::Index* e, const Names& scope) {
  std::vector<te::Value> list;
  for (const ast::Expr* index : e->indices) {
    Found found = item(index, scope);
    if (!found) return std::nullopt;
    const std::vector<Meaning>* items = items_of(*found);
    for (const Meaning& one : items ? *items : std::vector<Meaning>{*found}) {
      Maybe made = value_of(one, index->span);
      if (!made) return std::nullopt;
      std::string problem = te::problem_of_index(*made);
      if (!problem.empty()) return fail(index->span, problem);
      list.push_back(*made);
    }
  }
  return list;
}

}  // namespace tw::instantiation
