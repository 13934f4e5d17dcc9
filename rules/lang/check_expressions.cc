#include <algorithm>
#include <array>

#include "dsl/base/text.h"
#include "rules/lang/type_checker.h"

namespace tw::rules {

Type TypeChecker::type_of(const ast::Expr* e, const TypeScopePtr& scope) {
  return --work_left_ < 0 ? Type::any() : type_of_kind(e, scope);
}

Type TypeChecker::type_of_kind(const ast::Expr* e, const TypeScopePtr& scope) {
  switch (e->kind) {
    case ast::Kind::Int:
      return Type::of(Kind::Int);
    case ast::Kind::Float:
      return Type::of(Kind::Number);
    case ast::Kind::Dictionary: {
      auto* n = ast::as<ast::Dictionary>(e);
      std::vector<std::pair<std::string, Type>> fields;
      Type item;
      for (std::size_t i = 0; i < n->keys.size(); ++i) {
        fields.emplace_back(std::string(n->keys[i]), type_of(n->values[i], scope));
        item = i == 0 ? fields[0].second : join_types(item, fields.back().second);
      }
      Type type = n->keys.size() == 0 ? Type::of(Kind::Dictionary) : Type::dictionary(item);
      type.fields = std::move(fields);
      return type;
    }
    case ast::Kind::Bool:
      return Type::of(Kind::Bool);
    case ast::Kind::Text:
      return Type::of(Kind::Text);
    case ast::Kind::None:
      return Type::of(Kind::None);
    case ast::Kind::Hole:
      return Type::of(Kind::None);
    case ast::Kind::Name:
      return type_of_name(ast::as<ast::Name>(e), scope);
    case ast::Kind::List:
      return type_of_items(ast::as<ast::List>(e)->items, scope);
    case ast::Kind::Tuple:
      return type_of_items(ast::as<ast::Tuple>(e)->items, scope);
    case ast::Kind::Comprehension:
      return type_of_comprehension(ast::as<ast::Comprehension>(e), scope);
    case ast::Kind::Index:
      return type_of_index(ast::as<ast::Index>(e), scope);
    case ast::Kind::Member:
      return type_of_member(ast::as<ast::Member>(e), scope);
    case ast::Kind::Quantifier:
      return type_of_quantifier(ast::as<ast::Quantifier>(e), scope);
    case ast::Kind::Unary:
      return type_of_unary(ast::as<ast::Unary>(e), scope);
    case ast::Kind::Binary:
      return type_of_binary(ast::as<ast::Binary>(e), scope);
    case ast::Kind::Lambda:
      return type_of_lambda(ast::as<ast::Lambda>(e), scope);
    case ast::Kind::Call:
      return type_of_call(ast::as<ast::Call>(e), scope);
    case ast::Kind::Test:
      type_of(ast::as<ast::Test>(e)->value, scope);
      return Type::of(Kind::Bool);
    case ast::Kind::If: {
      auto* n = ast::as<ast::If>(e);
      check_condition(n->condition, scope);
      Type then = type_of(n->then, scope);
      return join_types(then, type_of(n->otherwise, scope));
    }
    case ast::Kind::Slice:
      break;
  }
  return Type::any();
}

Type TypeChecker::type_of_name(const ast::Name* n, const TypeScopePtr& scope) {
  if (const Type* type = scope->find(n->name)) return *type;
  if (n->name == "S" || n->name == "R") return Type::of(Kind::Text);
  std::vector<std::string> names;
  for (TypeScope* at = scope.get(); at; at = at->parent.get()) {
    for (const auto& [name, type] : at->names) names.push_back(name);
  }
  std::string near = n->name.size() < 3 ? "" : closest(n->name, names);
  if (n->name == "None" || n->name == "null")
    return error(n->span, cat("`", n->name, "` is not defined here"),
                 "`none` is no value, `_` a factor that the others leave"),
           Type::any();
  error(n->span, cat("`", n->name, "` is not defined here"), near.empty() ? "" : cat("did you mean `", near, "`?"));
  return Type::any();
}

Type TypeChecker::type_of_items(Array<const ast::Expr*> items, const TypeScopePtr& scope) {
  if (items.empty()) return {.kind = Kind::List, .size = 0};
  Type element = type_of(items[0], scope);
  for (std::size_t i = 1; i < items.size(); ++i) element = join_types(element, type_of(items[i], scope));
  return Type::list(element, static_cast<int>(items.size()));
}

TypeScopePtr TypeChecker::scope_of_item(Array<const ast::Name*> names, const Type& over, Span span,
                                        const TypeScopePtr& scope) {
  TypeScopePtr inner = new_scope();
  inner->parent = scope;
  Type item = over.item();
  bool whole = names.size() == 1;
  if (!whole && !item.is(Kind::List) && !item.is(Kind::Any))
    item = type_error(span, cat("a list of ", names.size(), " in this list"), item);
  for (const ast::Name* name : names) inner->names[std::string(name->name)] = whole ? item : item.item();
  return inner;
}

Type TypeChecker::type_of_comprehension(const ast::Comprehension* n, const TypeScopePtr& scope) {
  Type over = list_of(n->over, scope);
  TypeScopePtr inner = scope_of_item(n->names, over, n->over->span, scope);
  if (n->condition) check_condition(n->condition, inner);
  return Type::list(type_of(n->value, inner), n->condition ? -1 : over.size);
}

Type TypeChecker::type_of_index(const ast::Index* n, const TypeScopePtr& scope) {
  Type list = type_of(n->value, scope);
  if (list.is(Kind::Dictionary) && n->indices.size() == 1) {
    Type key = type_of(n->indices[0], scope);
    if (!key.is(Kind::Text) && !key.is(Kind::Any)) type_error(n->indices[0]->span, "a text", key);
    return list.item();
  }
  if (!list.is(Kind::Any) && (!list.is(Kind::List) || n->indices.size() != 1))
    return type_error(n->value->span, "a list", list);
  if (n->indices.size() != 1) return Type::any();
  if (auto* slice = ast::as<ast::Slice>(n->indices[0])) {
    if (slice->begin) check_fixed_integer(slice->begin, scope);
    if (slice->end) check_fixed_integer(slice->end, scope);
    return list.is(Kind::Any) ? list : Type::list(list.item());
  }
  Type at = type_of(n->indices[0], scope);
  bool fits = at.is(Kind::Any) || (at.is(Kind::Int) && at.openness != Openness::Open) ||
              (at.is(Kind::Text) && list.is(Kind::Any));
  if (!fits) type_error(n->indices[0]->span, "a fixed integer", at);
  return list.item();
}

Type TypeChecker::type_of_quantifier(const ast::Quantifier* n, const TypeScopePtr& scope) {
  check_condition(n->condition, scope_of_item(n->names, list_of(n->over, scope), n->over->span, scope));
  return Type::of(Kind::Bool);
}

Type TypeChecker::type_of_member(const ast::Member* n, const TypeScopePtr& scope) {
  auto* base = ast::as<ast::Name>(n->value);
  if (!base || base->name != "target") {
    Type value = type_of(n->value, scope);
    if (value.is(Kind::Any)) return value;
    if (!value.is(Kind::Dictionary))
      return error(n->span, only_records_have_members,
                   cat("write `", n->name, "(", ast::to_string(n->value), ")` for a function")),
             Type::any();
    if (value.fields.empty()) return value.item();
    std::vector<std::string> keys;
    for (const auto& [key, type] : value.fields) {
      if (key == n->name) return type;
      keys.push_back(key);
    }
    std::string near = closest(n->name, keys);
    return error(n->span, cat("the record has no `", n->name, "`"),
                 near.empty() ? cat("it has ", join(keys, ", ")) : cat("did you mean `", near, "`?")),
           Type::any();
  }
  std::vector<std::string> names;
  for (const TargetMember& member : target_members()) names.emplace_back(member.name);
  if (std::find(names.begin(), names.end(), n->name) != names.end()) return Type::of(Kind::Int);
  std::string near = closest(n->name, names);
  error(n->span, cat("a target has no `", n->name, "`"),
        near.empty() ? cat("it has ", join(names, ", ")) : cat("did you mean `", near, "`?"));
  return Type::any();
}

Type TypeChecker::type_of_unary(const ast::Unary* n, const TypeScopePtr& scope) {
  Type value = type_of(n->value, scope);
  Kind wanted = n->op == UnaryOp::Not ? Kind::Bool : Kind::Int;
  if (value.is(Kind::Any)) return Type::of(wanted, value.openness);
  if (!value.is(wanted) || value.openness == Openness::Open) {
    return type_error(n->value->span, wanted == Kind::Bool ? "a boolean" : "an integer", value);
  }
  return Type::of(wanted, value.openness);
}

Type TypeChecker::type_of_binary(const ast::Binary* n, const TypeScopePtr& scope) {
  Type a = type_of(n->a, scope), b = type_of(n->b, scope);
  if (n->op == BinaryOp::Div) return error(n->op_span, "integers divide with //"), Type::any();
  auto number = [](const Type& t) { return t.is(Kind::Int) || t.is(Kind::Bool) || t.is(Kind::Any); };
  bool is_logic = n->op == BinaryOp::And || n->op == BinaryOp::Or,
       is_equality = n->op == BinaryOp::Eq || n->op == BinaryOp::Ne;
  bool is_comparison =
      is_equality || n->op == BinaryOp::Lt || n->op == BinaryOp::Le || n->op == BinaryOp::Gt || n->op == BinaryOp::Ge;
  if (n->op == BinaryOp::Add && (a.is(Kind::List) || b.is(Kind::List))) {
    bool both = a.is(Kind::List) && b.is(Kind::List);
    bool other = a.is(Kind::Any) || b.is(Kind::Any);
    if (both) {
      int size = a.size < 0 || b.size < 0 ? -1 : a.size + b.size;
      return Type::list(a.size == 0 ? b.item() : b.size == 0 ? a.item() : join_types(a.item(), b.item()), size);
    }
    if (other) return Type::list(Type::any());
  }
  if (number(a) && number(b)) {
    // `b` does not matter where `a` decides.
    Openness openness = combine_openness(a.openness, b.openness);
    if (is_logic && a.openness != Openness::Open && openness == Openness::Open) openness = Openness::Unknown;
    return Type::of(is_logic || is_comparison ? Kind::Bool : Kind::Int, openness);
  }
  if (is_equality) return Type::of(Kind::Bool);
  error(n->op_span, cat("`", name_of(n->op), "` between ", name_of(a), " and ", name_of(b)));
  return Type::any();
}

Type TypeChecker::type_of_lambda(const ast::Lambda* n, const TypeScopePtr& scope) {
  Type type = Type::of(Kind::Function);
  type.lambda = n;
  type.scope = scope;
  type.home = module_;
  return type;
}

void TypeChecker::check_condition(const ast::Expr* e, const TypeScopePtr& scope) {
  Type type = type_of(e, scope);
  if (type.is(Kind::Any)) return;
  if (!type.is(Kind::Bool)) {
    type_error(e->span, "a condition", type);
  } else if (type.openness == Openness::Open) {
    error(e->span, open_condition_message, open_condition_note);
  }
}

void TypeChecker::check_fixed_integer(const ast::Expr* e, const TypeScopePtr& scope) {
  Type type = type_of(e, scope);
  if (type.is(Kind::Any) || (type.is(Kind::Int) && type.openness != Openness::Open)) return;
  type_error(e->span, "a fixed integer", type);
}

Type TypeChecker::list_of(const ast::Expr* e, const TypeScopePtr& scope) {
  Type list = type_of(e, scope);
  if (list.is(Kind::List) || list.is(Kind::Any)) return list;
  return type_error(e->span, "a list", list);
}

}  // namespace tw::rules
