#include <algorithm>

#include "dsl/ir/build.h"
#include "rules/lang/evaluator.h"
#include "rules/lang/types.h"

namespace tw::rules {

bool Evaluator::charge(i64 steps, Span span) {
  if ((steps_left_ -= steps) >= 0) return true;
  error(span, cat("the rule takes more than ", limits_.steps, " steps on one block"), "an endless or exploding loop?");
  return false;
}

bool Evaluator::check_size(const RuleValue& value, Span span) {
  if (value.tag == Tag::Open && value.parts > limits_.open_parts) {
    error(span, cat("an open value of more than ", limits_.open_parts, " parts"),
          "what is made of samples is written out in the trace");
    return false;
  }
  if (!value.has_items()) return true;
  if (value.list->size() > static_cast<std::size_t>(limits_.list_length)) {
    error(span, cat("a list of more than ", limits_.list_length, " elements"));
    return false;
  }
  if (value.depth > limits_.list_depth) {
    error(span, cat("lists inside lists more than ", limits_.list_depth, " deep"));
    return false;
  }
  if (value.parts > limits_.list_parts) {
    error(span, cat("a list of more than ", limits_.list_parts, " values, those of the lists inside counted"));
    return false;
  }
  return true;
}

std::optional<RuleValue> Evaluator::eval(const ast::Expr* e, const std::shared_ptr<Scope>& scope) {
  if (!charge(1, e->span)) return std::nullopt;
  if (nesting_ >= limits_.nesting)
    return error(e->span, cat("expressions nested more than ", limits_.nesting, " deep through calls"));
  ++nesting_;
  std::optional<RuleValue> value = eval_kind(e, scope);
  --nesting_;
  // A name only refers to its value.
  if (!value || e->kind == ast::Kind::Name) return value;
  if (!check_size(*value, e->span)) return std::nullopt;
  if (value->has_items() && !charge(4 * static_cast<i64>(value->list->size()), e->span)) return std::nullopt;
  return value;
}

std::optional<RuleValue> Evaluator::eval_kind(const ast::Expr* e, const std::shared_ptr<Scope>& scope) {
  switch (e->kind) {
    case ast::Kind::Int:
      return RuleValue::of(ast::as<ast::Int>(e)->value);
    case ast::Kind::Bool:
      return RuleValue::of(ast::as<ast::Bool>(e)->value);
    case ast::Kind::Text:
      return RuleValue::of(std::string(ast::as<ast::Text>(e)->value));
    case ast::Kind::None:
      return RuleValue::none();
    case ast::Kind::Hole:
      return RuleValue::of_open({.tag = Arg::Tag::Hole});
    case ast::Kind::Name:
      return eval_name(ast::as<ast::Name>(e), scope);
    case ast::Kind::List:
      return eval_items(ast::as<ast::List>(e)->items, scope);
    case ast::Kind::Float:
      return RuleValue::of_number(ast::as<ast::Float>(e)->value);
    case ast::Kind::Dictionary:
      return eval_dictionary(ast::as<ast::Dictionary>(e), scope);
    case ast::Kind::Tuple:
      return eval_items(ast::as<ast::Tuple>(e)->items, scope);
    case ast::Kind::Quantifier:
      return eval_quantifier(ast::as<ast::Quantifier>(e), scope);
    case ast::Kind::Comprehension:
      return eval_comprehension(ast::as<ast::Comprehension>(e), scope);
    case ast::Kind::Index:
      return eval_index(ast::as<ast::Index>(e), scope);
    case ast::Kind::Member:
      return eval_member(ast::as<ast::Member>(e), scope);
    case ast::Kind::Unary:
      return eval_unary(ast::as<ast::Unary>(e), scope);
    case ast::Kind::Binary:
      return eval_binary(ast::as<ast::Binary>(e), scope);
    case ast::Kind::If: {
      auto* n = ast::as<ast::If>(e);
      std::optional<bool> holds = condition(n->condition, scope);
      if (!holds) return std::nullopt;
      return eval(*holds ? n->then : n->otherwise, scope);
    }
    case ast::Kind::Lambda: {
      RuleValue value;
      value.tag = Tag::Lambda;
      value.lambda = ast::as<ast::Lambda>(e);
      value.scope = scope;
      value.home = module_;
      captured_.push_back(scope);
      return value;
    }
    case ast::Kind::Test: {
      std::optional<RuleValue> value = eval(ast::as<ast::Test>(e)->value, scope);
      if (!value) return std::nullopt;
      return RuleValue::of(value->tag != Tag::None);
    }
    case ast::Kind::Call:
      return eval_call(ast::as<ast::Call>(e), scope);
    case ast::Kind::Slice:
      break;
  }
  TW_CHECK(false, "a slice outside of an index");
  return std::nullopt;
}

std::optional<RuleValue> Evaluator::eval_name(const ast::Name* n, const std::shared_ptr<Scope>& scope) {
  if (RuleValue* value = scope->find(n->name)) return *value;
  if (n->name == "S" || n->name == "R") return RuleValue::of(std::string(n->name));
  return error(n->span, cat("`", n->name, "` is not defined here"));
}

std::optional<RuleValue> Evaluator::eval_items(Array<const ast::Expr*> items, const std::shared_ptr<Scope>& scope) {
  std::vector<RuleValue> values;
  for (const ast::Expr* item : items) {
    std::optional<RuleValue> value = eval(item, scope);
    if (!value) return std::nullopt;
    values.push_back(std::move(*value));
  }
  return RuleValue::of(std::move(values));
}

std::optional<RuleValue> Evaluator::eval_dictionary(const ast::Dictionary* n, const std::shared_ptr<Scope>& scope) {
  std::optional<RuleValue> values = eval_items(n->values, scope);
  if (!values) return std::nullopt;
  return RuleValue::of(std::vector<std::string>(n->keys.begin(), n->keys.end()), *values->list);
}

std::shared_ptr<Scope> Evaluator::scope_of_item(Array<const ast::Name*> variables, const RuleValue& item, Span span,
                                                const std::shared_ptr<Scope>& scope) {
  std::vector<Str> names;
  for (const ast::Name* name : variables) names.push_back(name->name);
  auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  return bind(names, item, *inner, span) ? inner : nullptr;
}

std::optional<RuleValue> Evaluator::eval_quantifier(const ast::Quantifier* n, const std::shared_ptr<Scope>& scope) {
  std::optional<RuleValue> over = eval(n->over, scope);
  if (!over) return std::nullopt;
  if (over->tag != Tag::List) return type_error(n->over->span, "a list", *over);
  for (const RuleValue& item : *over->list) {
    std::shared_ptr<Scope> inner = scope_of_item(n->names, item, n->span, scope);
    if (!inner) return std::nullopt;
    std::optional<bool> holds = condition(n->condition, inner);
    if (!holds) return std::nullopt;
    if (*holds != n->is_all) return RuleValue::of(!n->is_all);  // decided: the others may be meaningless
  }
  return RuleValue::of(n->is_all);
}

std::optional<RuleValue> Evaluator::eval_comprehension(const ast::Comprehension* n,
                                                       const std::shared_ptr<Scope>& scope) {
  std::optional<RuleValue> over = eval(n->over, scope);
  if (!over) return std::nullopt;
  if (over->tag != Tag::List) return type_error(n->over->span, "a list", *over);
  std::vector<RuleValue> values;
  for (const RuleValue& item : *over->list) {
    std::shared_ptr<Scope> inner = scope_of_item(n->names, item, n->span, scope);
    if (!inner) return std::nullopt;
    if (n->condition) {
      std::optional<bool> holds = condition(n->condition, inner);
      if (!holds) return std::nullopt;
      if (!*holds) continue;
    }
    std::optional<RuleValue> value = eval(n->value, inner);
    if (!value) return std::nullopt;
    values.push_back(std::move(*value));
  }
  return RuleValue::of(std::move(values));
}

bool Evaluator::bind(const std::vector<Str>& names, const RuleValue& item, Scope& scope, Span span) {
  if (names.size() == 1) {
    scope.set(names[0], item);
    return true;
  }
  if (item.tag != Tag::List || item.list->size() != names.size()) {
    error(span, cat("expected a list of ", names.size(), " to take apart"));
    return false;
  }
  for (std::size_t i = 0; i < names.size(); ++i) scope.set(names[i], (*item.list)[i]);
  return true;
}

std::optional<RuleValue> Evaluator::eval_index(const ast::Index* n, const std::shared_ptr<Scope>& scope) {
  std::optional<RuleValue> list = eval(n->value, scope);
  if (!list) return std::nullopt;
  if (list->tag == Tag::Dictionary && n->indices.size() == 1) return eval_entry(*list, n, scope);
  if (list->tag != Tag::List || n->indices.size() != 1) return type_error(n->value->span, "a list", *list);
  i64 size = static_cast<i64>(list->list->size());
  auto position = [&](const ast::Expr* e, i64 fallback) -> std::optional<i64> {
    if (!e) return fallback;
    std::optional<RuleValue> value = eval(e, scope);
    if (!value) return std::nullopt;
    if (value->tag != Tag::Int) return type_error(e->span, "a fixed integer", *value), std::nullopt;
    return value->integer < 0 ? value->integer + size : value->integer;
  };
  if (auto* slice = ast::as<ast::Slice>(n->indices[0])) {
    std::optional<i64> begin = position(slice->begin, 0), end = position(slice->end, size);
    if (!begin || !end) return std::nullopt;
    i64 from = std::clamp<i64>(*begin, 0, size), to = std::clamp<i64>(*end, from, size);
    return RuleValue::of(std::vector<RuleValue>(list->list->begin() + from, list->list->begin() + to));
  }
  std::optional<i64> at = position(n->indices[0], 0);
  if (!at) return std::nullopt;
  if (*at < 0 || *at >= size) return error(n->span, cat("index ", *at, " into a list of ", size));
  return (*list->list)[*at];
}

std::optional<RuleValue> Evaluator::eval_entry(const RuleValue& dictionary, const ast::Index* n,
                                               const std::shared_ptr<Scope>& scope) {
  std::optional<RuleValue> key = eval(n->indices[0], scope);
  if (!key) return std::nullopt;
  if (key->tag != Tag::Text) return type_error(n->indices[0]->span, "a text", *key);
  return entry_of(dictionary, key->text, n->indices[0]->span);
}

std::optional<RuleValue> Evaluator::entry_of(const RuleValue& dictionary, std::string_view key, Span span) {
  auto at = std::find(dictionary.keys->begin(), dictionary.keys->end(), key);
  if (at != dictionary.keys->end()) return (*dictionary.list)[static_cast<std::size_t>(at - dictionary.keys->begin())];
  std::string near = closest(key, *dictionary.keys);
  return error(span, cat("the dictionary has no key ", quote(key)),
               near.empty() ? "" : cat("did you mean ", quote(near), "?"));
}

std::optional<RuleValue> Evaluator::eval_member(const ast::Member* n, const std::shared_ptr<Scope>& scope) {
  auto* base = ast::as<ast::Name>(n->value);
  if (!base || base->name != "target") {
    std::optional<RuleValue> value = eval(n->value, scope);
    if (!value) return std::nullopt;
    if (value->tag == Tag::Dictionary) return entry_of(*value, n->name, n->span);
    return error(n->span, only_records_have_members,
                 cat("write `", n->name, "(", ast::to_string(n->value), ")` for a function"));
  }
  std::vector<std::string> names;
  for (const TargetMember& member : target_members()) {
    if (n->name == member.name) return RuleValue::of(target_.*member.field);
    names.emplace_back(member.name);
  }
  std::string near = closest(n->name, names);
  return error(n->span, cat("a target has no `", n->name, "`"),
               near.empty() ? cat("it has ", join(names, ", ")) : cat("did you mean `", near, "`?"));
}

std::optional<RuleValue> Evaluator::eval_unary(const ast::Unary* n, const std::shared_ptr<Scope>& scope) {
  std::optional<RuleValue> value = eval(n->value, scope);
  if (!value) return std::nullopt;
  if (n->op == UnaryOp::Not && value->tag == Tag::Bool) return RuleValue::of(!value->integer);
  if (n->op == UnaryOp::Neg && value->tag == Tag::Int) {
    std::optional<i64> negative = exact(BinaryOp::Sub, 0, value->integer);
    return negative ? std::optional(RuleValue::of(*negative)) : error(n->span, "the integer does not fit into 64 bits");
  }
  return type_error(n->value->span, n->op == UnaryOp::Not ? "a boolean" : "an integer", *value);
}

std::optional<RuleValue> Evaluator::eval_binary(const ast::Binary* n, const std::shared_ptr<Scope>& scope) {
  std::optional<RuleValue> a = eval(n->a, scope);
  if (!a) return std::nullopt;
  if (a->tag == Tag::Bool && (n->op == BinaryOp::And || n->op == BinaryOp::Or) &&
      (a->integer != 0) == (n->op == BinaryOp::Or)) {
    return a;  // decided: `b` may be meaningless then
  }
  std::optional<RuleValue> b = eval(n->b, scope);
  if (!b) return std::nullopt;
  return combine(n, *a, *b);
}

std::optional<RuleValue> Evaluator::combine(const ast::Binary* n, const RuleValue& a, const RuleValue& b) {
  auto number = [](const RuleValue& v) { return v.tag == Tag::Int || v.tag == Tag::Bool; };
  if (n->op == BinaryOp::Div) return error(n->op_span, "integers divide with //");
  if (number(a) && number(b)) {
    bool is_division = n->op == BinaryOp::FloorDiv || n->op == BinaryOp::FloorMod;
    if (is_division && b.integer == 0) return error(n->op_span, "division by zero");
    std::optional<i64> value = exact(n->op, a.integer, b.integer);
    if (!value) return error(n->op_span, "the integer does not fit into 64 bits");
    bool is_bool = n->op >= BinaryOp::Lt || (a.tag == Tag::Bool && b.tag == Tag::Bool);
    return is_bool ? RuleValue::of(*value != 0) : RuleValue::of(*value);
  }
  if ((a.tag == Tag::Open || number(a)) && (b.tag == Tag::Open || number(b))) {
    return RuleValue::of_open(
        {.tag = Arg::Tag::Binary, .op = n->op, .items = arena().list<Arg>({arg_of(a), arg_of(b)})},
        a.parts + b.parts + 1);
  }
  if (n->op == BinaryOp::Add && a.tag == Tag::List && b.tag == Tag::List) {
    std::vector<RuleValue> joined = *a.list;
    joined.insert(joined.end(), b.list->begin(), b.list->end());
    return RuleValue::of(std::move(joined));
  }
  if (n->op == BinaryOp::Eq || n->op == BinaryOp::Ne) {
    if (!charge(std::min(a.parts, b.parts), n->span)) return std::nullopt;
    return RuleValue::of(same(a, b) == (n->op == BinaryOp::Eq));
  }
  return error(n->op_span, cat("`", name_of(n->op), "` between ", name_of(a.tag), " and ", name_of(b.tag)));
}

std::optional<bool> Evaluator::condition(const ast::Expr* e, const std::shared_ptr<Scope>& scope) {
  std::optional<RuleValue> value = eval(e, scope);
  if (!value) return std::nullopt;
  if (value->tag == Tag::Bool) return value->integer != 0;
  if (value->tag == Tag::Open) {
    error(e->span, open_condition_message, open_condition_note);
    return std::nullopt;
  }
  type_error(e->span, "a condition", *value);
  return std::nullopt;
}

}  // namespace tw::rules
