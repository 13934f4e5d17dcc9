#include "dsl/text/program_expr.h"

#include <algorithm>
#include <limits>

#include "dsl/base/text.h"
#include "dsl/ir/comparison.h"

namespace tw {
namespace {

constexpr i64 kMaxLanes = 1024;

std::optional<double> named_number(const ast::Expr* e) {
  if (auto* number = ast::as<ast::Float>(e)) return number->value;
  auto* negated = ast::as<ast::Unary>(e);
  if (negated && negated->op == UnaryOp::Neg) {
    std::optional<double> value = negated->value->kind == ast::Kind::Name ? named_number(negated->value) : std::nullopt;
    return value ? std::optional(-*value) : std::nullopt;
  }
  auto* name = ast::as<ast::Name>(e);
  if (name && name->name == "inf") return std::numeric_limits<double>::infinity();
  if (name && name->name == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

// What is wrong with an operation on this type, or null.
const char* problem_of(BinaryOp op, DType type) {
  bool logical = op == BinaryOp::And || op == BinaryOp::Or;
  if (logical != (type == DType::Bool) && !(type == DType::Bool && is_comparison(op)))
    return logical ? "conditions" : "numbers";
  if (op == BinaryOp::Div && !is_float(type)) return "floats";
  bool integer = op == BinaryOp::FloorDiv || op == BinaryOp::FloorMod;
  return integer && !is_int(type) ? "integers" : nullptr;
}

}  // namespace

const ProgramNames::Entry* ProgramNames::find(std::string_view name) const {
  auto at = by_name_.find(name);
  if (at == by_name_.end()) return nullptr;
  for (std::size_t i = at->second.size(); i-- > 0;) {
    const Entry& entry = at->second[i];
    if (entry.buffer || entry.block == block_) return &entry;
  }
  return nullptr;
}

bool ProgramNames::is_buffer(std::string_view name) const {
  const Entry* entry = find(name);
  return entry && entry->buffer;
}

std::vector<std::string> ProgramNames::all() const {
  std::vector<std::string> names;
  for (const auto& [name, entries] : by_name_) {
    if (find(name)) names.push_back(std::string(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::nullptr_t ProgramExprs::fail(Span span, std::string message, std::string note) {
  parser_.error(span, std::move(message), std::move(note));
  return nullptr;
}

const Expr* ProgramExprs::condition(const ast::Expr* e) {
  const Expr* made = lower(e);
  if (made && made->type.dtype != DType::Bool)
    return fail(e->span, cat("expected a condition, found ", to_string(made->type)));
  return made;
}

const Expr* ProgramExprs::index(const ast::Expr* e) {
  const Expr* made = lower(e);
  if (made && made->type.dtype != DType::I64)
    return fail(e->span, cat("expected an i64 as index, found ", to_string(made->type)));
  return made;
}

const Expr* ProgramExprs::lower(const ast::Expr* e) {
  if (std::optional<double> number = named_number(e)) return build_.number(*number, DType::F32);
  switch (e->kind) {
    case ast::Kind::Int:
      return build_.integer(ast::as<ast::Int>(e)->value);
    case ast::Kind::Bool:
      return build_.integer(ast::as<ast::Bool>(e)->value, DType::Bool);
    case ast::Kind::Name:
      return name(ast::as<ast::Name>(e));
    case ast::Kind::Unary:
      return unary(ast::as<ast::Unary>(e));
    case ast::Kind::Binary:
      return binary(ast::as<ast::Binary>(e));
    case ast::Kind::If:
      return select(ast::as<ast::If>(e));
    case ast::Kind::Call:
      return call(ast::as<ast::Call>(e));
    case ast::Kind::Index: {
      std::optional<StoreTarget> target = element(e);
      return target ? build_.load(target->buffer, target->indices) : nullptr;
    }
    default:
      return fail(e->span, cat("expected a value, found `", ast::to_string(e), "`"));
  }
}

const Expr* ProgramExprs::name(const ast::Name* e) {
  const ProgramNames::Entry* entry = names_.find(e->name);
  if (entry && entry->var) return entry->var;
  if (entry)
    return fail(e->span, cat("expected a value, found the buffer `", e->name, "`"),
                cat("an element is `", e->name, "[...]`"));
  std::string near = closest(e->name, names_.all());
  return fail(e->span, cat("unknown name `", e->name, "`"), near.empty() ? "" : cat("did you mean `", near, "`?"));
}

const Expr* ProgramExprs::unary(const ast::Unary* e) {
  const Expr* value = lower(e->value);
  if (!value) return nullptr;
  bool wants_condition = e->op == UnaryOp::Not;
  if (wants_condition != (value->type.dtype == DType::Bool)) {
    return fail(e->span, cat("expected ", wants_condition ? "a condition at `not`" : "a number at `-`", ", found ",
                             to_string(value->type)));
  }
  return build_.arena.make<Unary>(Expr{{Kind::Unary}, value->type}, e->op, value);
}

const Expr* ProgramExprs::binary(const ast::Binary* e) {
  const Expr *a = lower(e->a), *b = lower(e->b);
  return a && b ? binary(e->op, a, b, e->op_span) : nullptr;
}

const Expr* ProgramExprs::binary(BinaryOp op, const Expr* a, const Expr* b, Span at) {
  if (a->type != b->type) {
    return fail(
        at, cat("expected equal types at `", name_of(op), "`, found ", to_string(a->type), " and ", to_string(b->type)),
        "conversions are written out, as in `f32(x)`");
  }
  if (const char* expected = problem_of(op, a->type.dtype)) {
    return fail(at, cat("expected ", expected, " at `", name_of(op), "`, found ", to_string(a->type)));
  }
  Type type = is_comparison(op) ? Type{DType::Bool, a->type.lanes} : a->type;
  return build_.arena.make<Binary>(Expr{{Kind::Binary}, type}, op, a, b);
}

const Expr* ProgramExprs::select(const ast::If* e) {
  const Expr *condition = this->condition(e->condition), *then = lower(e->then), *otherwise = lower(e->otherwise);
  if (!condition || !then || !otherwise) return nullptr;
  if (then->type != otherwise->type) {
    return fail(e->span, cat("expected equal types behind `then` and `else`, found ", to_string(then->type), " and ",
                             to_string(otherwise->type)));
  }
  return build_.arena.make<Select>(Expr{{Kind::Select}, then->type}, condition, then, otherwise);
}

std::optional<std::vector<const Expr*>> ProgramExprs::arguments(const ast::Call* e, std::size_t count) {
  if (e->arguments.size() != count) {
    fail(e->span, cat("expected ", count, count == 1 ? " argument" : " arguments", ", found ", e->arguments.size()));
    return std::nullopt;
  }
  std::vector<const Expr*> list;
  for (const ast::Argument& argument : e->arguments) {
    list.push_back(argument.name.empty() ? lower(argument.value)
                                         : fail(argument.name_span, "expected an argument without a name"));
    if (!list.back()) return std::nullopt;
  }
  return list;
}

const Expr* ProgramExprs::call(const ast::Call* e) {
  auto* callee = ast::as<ast::Name>(e->callee);
  if (!callee) return fail(e->callee->span, "expected the name of a function");
  if (callee->name == "ramp" || callee->name == "broadcast") return vector(e, callee->name);
  if (std::optional<DType> type = parse_dtype(callee->name)) {
    bool one = e->arguments.size() == 1 && e->arguments[0].name.empty();
    return one ? convert(*type, e->arguments[0].value)
               : fail(e->span, cat("expected 1 argument, found ", e->arguments.size()));
  }
  if (callee->name == "min" || callee->name == "max") {
    std::optional<std::vector<const Expr*>> two = arguments(e, 2);
    return two ? binary(callee->name == "min" ? BinaryOp::Min : BinaryOp::Max, (*two)[0], (*two)[1], callee->span)
               : nullptr;
  }
  std::optional<Function> function = parse_function(callee->name);
  if (!function) return fail(callee->span, cat("unknown function `", callee->name, "`"));
  std::optional<std::vector<const Expr*>> list = arguments(e, static_cast<std::size_t>(arity_of(*function)));
  if (!list) return nullptr;
  for (const Expr* argument : *list) {
    bool is_index = *function == Function::Within;
    bool fits = is_index ? argument->type.dtype == DType::I64
                         : is_float(argument->type.dtype) ||
                               (*function == Function::Abs && argument->type.dtype != DType::Bool);
    if (!fits || argument->type != list->front()->type) {
      return fail(e->span, cat("expected ",
                               fits       ? "arguments of one type"
                               : is_index ? "i64"
                                          : "floats",
                               " at `", callee->name, "`, found ", to_string(argument->type)));
    }
  }
  return build_.call(*function, build_.arena.copy(*list));
}

// A conversion of a number is a constant of that type; of anything else a cast.
const Expr* ProgramExprs::convert(DType type, const ast::Expr* e) {
  auto* integer = ast::as<ast::Int>(e);
  if (integer && is_int(type)) return build_.integer(integer->value, type);
  std::optional<double> number = named_number(e);
  if (number && is_float(type)) return build_.number(*number, type);
  const Expr* value = lower(e);
  return value ? build_.arena.make<Cast>(Expr{{Kind::Cast}, {type, value->type.lanes}}, value) : nullptr;
}

const Expr* ProgramExprs::vector(const ast::Call* e, Str kind) {
  bool is_ramp = kind == "ramp";
  std::optional<std::vector<const Expr*>> list = arguments(e, is_ramp ? 3 : 2);
  if (!list) return nullptr;
  const ast::Expr* last = e->arguments.back().value;
  auto* lanes = ast::as<ast::Int>(last);
  if (!lanes || lanes->value < 2 || lanes->value > kMaxLanes)
    return fail(last->span, cat("expected a number of lanes from 2 to ", kMaxLanes));
  for (const Expr* argument : *list) {
    if (argument->type.lanes != 1)
      return fail(e->span, cat("expected scalars at `", kind, "`, found ", to_string(argument->type)));
  }
  if (!is_ramp) return build_.broadcast((*list)[0], static_cast<int>(lanes->value));
  if ((*list)[0]->type != (*list)[1]->type) return fail(e->span, "expected equal types at `ramp`");
  return build_.ramp((*list)[0], (*list)[1], static_cast<int>(lanes->value));
}

std::optional<StoreTarget> ProgramExprs::element(const ast::Expr* e) {
  auto* index = ast::as<ast::Index>(e);
  auto* name = index ? ast::as<ast::Name>(index->value) : nullptr;
  if (!name) {
    fail(e->span, cat("expected an element of a buffer, found `", ast::to_string(e), "`"));
    return std::nullopt;
  }
  const ProgramNames::Entry* entry = names_.find(name->name);
  if (!entry || !entry->buffer) {
    std::string near = closest(name->name, names_.all());
    fail(name->span, cat("unknown buffer `", name->name, "`"), near.empty() ? "" : cat("did you mean `", near, "`?"));
    return std::nullopt;
  }
  std::vector<const Expr*> indices;
  for (const ast::Expr* item : index->indices) {
    indices.push_back(this->index(item));
    if (!indices.back()) return std::nullopt;
  }
  if (indices.size() != entry->buffer->shape.size()) {
    fail(e->span, cat("`", name->name, "` has ", entry->buffer->shape.size(), " dimensions, found ", indices.size(),
                      " indices"));
    return std::nullopt;
  }
  return StoreTarget{entry->buffer, build_.arena.copy(indices)};
}

}  // namespace tw
