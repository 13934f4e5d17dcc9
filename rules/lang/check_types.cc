#include "rules/lang/check_types.h"

#include "dsl/base/text.h"
#include "rules/lang/type_checker.h"

namespace tw::rules {

void check_types(const Module& module, const Declared& declared, Diagnostics& diagnostics) {
  for (const UserFunction& function : module.functions) TypeChecker(module, declared, diagnostics).check(function);
  for (const Step& step : module.steps) TypeChecker(module, declared, diagnostics).check(step);
  for (const Rule& rule : module.rules) TypeChecker(module, declared, diagnostics).check(rule);
  for (const RuleSet& set : module.sets) TypeChecker(module, declared, diagnostics).check(set);
}

void check_parameter(const ast::Argument& given, const Module& set_module, const Rule& rule, const Module& home,
                     const Declared& declared, Diagnostics& diagnostics) {
  TypeChecker(set_module, declared, diagnostics).check(given, rule, home);
}

void TypeChecker::check(const ast::Argument& given, const Rule& rule, const Module& home) {
  Diagnostics elsewhere(diagnostics_.source());  // what is wrong in the rule itself is said there
  auto empty = new_scope();
  for (const RuleParam& param : rule.params) {
    if (param.name != given.name) continue;
    Type wanted = TypeChecker(home, declared_, elsewhere).type_of(param.value, empty);
    Type found = TypeChecker(*module_, declared_, elsewhere).type_of(given.value, empty);
    auto is_number = [](const Type& type) { return type.is(Kind::Int) || type.is(Kind::Bool); };
    auto is_anything = [](const Type& type) { return type.is(Kind::Any) || type.is(Kind::None); };
    if (is_anything(wanted) || is_anything(found) || wanted.kind == found.kind ||
        (is_number(wanted) && is_number(found)))
      continue;
    type_error(given.value->span, cat(name_of(wanted), " for the parameter `", param.name, "` of `", rule.name, "`"),
               found);
  }
}

void TypeChecker::check(const RuleSet& set) {
  auto empty = new_scope();
  functions_ = 1;
  for (const SetEntry& entry : set.entries) {
    for (const ast::Argument& argument : entry.arguments) type_of(argument.value, empty);
  }
}

// On its own: what is wrong for any arguments.
void TypeChecker::check(const UserFunction& function) {
  auto scope = new_scope();
  for (Str parameter : function.parameters) scope->names[std::string(parameter)] = Type::any();
  functions_ = 1;
  type_of(function.body, scope);
}

void TypeChecker::check(const Step& step) { result_of(step, {}); }

void TypeChecker::check(const Rule& rule) {
  auto scope = new_scope();
  auto empty = new_scope();
  is_post_ = rule.is_post;
  if (!rule.is_schedule())
    scope->names[std::string(rule.argument)] = rule.visits_program ? Type::of(Kind::None) : Type::of(Kind::Block);
  functions_ = 1;
  for (const RuleParam& param : rule.params) {
    Type type = type_of(param.value, empty);
    type.size = -1;  // a set may give another one
    scope->names[std::string(param.name)] = type;
  }
  if (rule.when) check_condition(rule.when, scope);
  functions_ = 0;
  run(rule.body, scope);
}

void TypeChecker::run(const Statements& statements, const TypeScopePtr& scope) {
  for (const Statement& statement : statements) run(statement, scope);
}

void TypeChecker::run(const Statement& s, const TypeScopePtr& scope) {
  switch (s.kind) {
    case StatementKind::Skip:
    case StatementKind::Drop:
    case StatementKind::Draw:  // read as assignments
      return;
    case StatementKind::Assign:
      return assign(s, scope);
    case StatementKind::Expression:
      type_of(s.value, scope);
      return;
    case StatementKind::If:
    case StatementKind::Try: {
      if (s.value) check_condition(s.value, scope);
      Snapshot before = take(scope);
      run(s.body, scope);
      Snapshot first = take(scope);
      restore(scope, before);
      run(s.otherwise, scope);
      return join_with(scope, first);
    }
    case StatementKind::For:
      return for_loop(s, scope);
    case StatementKind::Either:
      return either(s, scope);
    case StatementKind::Require: {
      Type type = type_of(s.value, scope);
      if (!type.is(Kind::Bool) && !type.is(Kind::Int) && !type.is(Kind::Any))
        type_error(s.value->span, "a condition", type);
      return;
    }
  }
}

void TypeChecker::for_loop(const Statement& s, const TypeScopePtr& scope) {
  Type item = list_of(s.value, scope).item();
  bool whole = s.variables.size() == 1;
  if (!whole && !item.is(Kind::List) && !item.is(Kind::Any))
    item = type_error(s.value->span, cat("a list of ", s.variables.size(), " in this list"), item);
  auto body = [&] {
    auto inner = new_scope();
    inner->parent = scope;
    for (Str name : s.variables) inner->names[std::string(name)] = whole ? item : item.item();
    run(s.body, inner);
  };
  // Twice: what the first iteration assigns the second one sees. Errors of the second are those of
  // the first, or new ones.
  Snapshot before = take(scope);
  std::size_t errors = diagnostics_.all().size();
  body();
  join_with(scope, before);
  if (diagnostics_.all().size() > errors) return;
  before = take(scope);
  body();
  join_with(scope, before);
}

void TypeChecker::either(const Statement& s, const TypeScopePtr& scope) {
  Snapshot before = take(scope);
  std::optional<Snapshot> joined;
  for (const Alternative& alternative : s.alternatives) {
    restore(scope, before);
    if (alternative.over) scope->names[std::string(alternative.variable)] = list_of(alternative.over, scope).item();
    if (alternative.condition) check_condition(alternative.condition, scope);
    run(alternative.body, scope);
    if (joined) join_with(scope, *joined);
    joined = take(scope);
  }
}

void TypeChecker::assign(const Statement& s, const TypeScopePtr& scope) {
  Type value = type_of(s.value, scope);
  if (s.targets.size() == 1) return assign_one(s.targets[0], value, scope);
  int wanted = static_cast<int>(s.targets.size());
  if (!value.is(Kind::List) && !value.is(Kind::Any)) {
    type_error(s.value->span, cat("a list of ", wanted), value);
    value = Type::any();
  } else if (value.is(Kind::List) && value.size >= 0 && value.size != wanted) {
    error(s.value->span, cat("expected ", wanted, " values, found ", value.size));
  }
  for (const ast::Expr* target : s.targets) assign_one(target, value.item(), scope);
}

void TypeChecker::assign_one(const ast::Expr* target, const Type& value, const TypeScopePtr& scope) {
  if (auto* name = ast::as<ast::Name>(target)) {
    if (Type* old = scope->find(name->name))
      *old = value;
    else
      scope->names[std::string(name->name)] = value;
    return;
  }
  auto* index = ast::as<ast::Index>(target);
  if (!index) return;
  for (const ast::Expr* at : index->indices) check_fixed_integer(at, scope);
  auto* name = ast::as<ast::Name>(index->value);
  Type* list = scope->find(name->name);
  if (!list) return error(name->span, cat("`", name->name, "` is not defined here"));
  if (!list->is(Kind::List)) return;
  int size = list->size;
  *list = Type::list(join_types(list->item(), value), size);
}

TypeChecker::Snapshot TypeChecker::take(const TypeScopePtr& scope) {
  Snapshot out;
  for (TypeScope* at = scope.get(); at; at = at->parent.get()) out.push_back(at->names);
  return out;
}

void TypeChecker::restore(const TypeScopePtr& scope, const Snapshot& names) {
  std::size_t i = 0;
  for (TypeScope* at = scope.get(); at; at = at->parent.get()) at->names = names[i++];
}

void TypeChecker::join_with(const TypeScopePtr& scope, const Snapshot& other) {
  std::size_t i = 0;
  for (TypeScope* at = scope.get(); at; at = at->parent.get(), ++i) {
    // A name that only one branch assigns may be missing: then the evaluator says so.
    for (auto& [name, type] : at->names) {
      auto known = other[i].find(name);
      if (known != other[i].end())
        type = join_types(type, known->second);
      else if (i == 0)
        type = Type::any();
    }
    for (const auto& [name, type] : other[i]) at->names.try_emplace(name, Type::any());
  }
}

void TypeChecker::error(Span span, std::string message, std::string note) {
  diagnostics_.error(span, std::move(message), std::move(note));
}

Type TypeChecker::type_error(Span span, std::string_view expected, const Type& found) {
  error(span, cat("expected ", expected, ", found ", name_of(found)));
  return Type::any();
}

}  // namespace tw::rules
