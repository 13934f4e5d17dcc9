#include "rules/lang/evaluator.h"

namespace tw::rules {

Flow Evaluator::run(BlockId block) {
  auto scope = std::make_shared<Scope>();
  if (!use_.rule->is_schedule())
    scope->set(use_.rule->argument, use_.rule->visits_program ? RuleValue::none() : RuleValue::of(block));
  if (!bind_params(*scope)) return Flow::Error;
  if (use_.rule->when) {
    std::optional<bool> holds = check_when(use_.rule->when, scope);
    if (!holds) return Flow::Error;
    if (!*holds) return Flow::Drop;
  }
  applied_ = true;
  return run(use_.rule->body, scope);
}

std::optional<bool> Evaluator::check_when(const ast::Expr* e, const std::shared_ptr<Scope>& scope) {
  if (auto* both = ast::as<ast::Binary>(e); both && both->op == BinaryOp::And) {
    std::optional<bool> first = check_when(both->a, scope);
    return first && *first ? check_when(both->b, scope) : first;
  }
  std::optional<bool> holds = condition(e, scope);
  if (holds && !*holds) unmet_ = ast::to_string(e);
  return holds;
}

bool Evaluator::bind_params(Scope& scope) {
  auto empty = std::make_shared<Scope>();
  for (const RuleParam& param : use_.rule->params) {
    const ast::Expr* value = param.value;
    for (const ast::Argument& argument : use_.arguments) {
      if (argument.name == param.name) value = argument.value;
    }
    // Spans of what a set gives belong to the module of the set.
    Diagnostics inside(*use_.set_module->source), *outside = diagnostics_;
    if (value != param.value && use_.set_module != use_.module) diagnostics_ = &inside;
    module_ = value != param.value ? use_.set_module.get() : use_.module.get();
    std::optional<RuleValue> made = eval(value, empty);
    diagnostics_ = outside;
    module_ = use_.module.get();
    if (inside.has_errors())
      error(use_.rule->span, cat("parameter `", param.name, "`, as ", use_.set_module->source->name,
                                 " sets it: ", inside.all()[0].message));
    if (!made) return false;
    scope.set(param.name, std::move(*made));
  }
  return true;
}

Flow Evaluator::run(const Statements& statements, const std::shared_ptr<Scope>& scope) {
  for (const Statement& statement : statements) {
    if (!charge(1, statement.span)) return Flow::Error;
    Flow flow = run(statement, scope);
    if (flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

Flow Evaluator::run_nested(const Statements& statements, const std::shared_ptr<Scope>& scope) {
  auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  return run(statements, inner);
}

Flow Evaluator::run(const Statement& s, const std::shared_ptr<Scope>& scope) {
  switch (s.kind) {
    case StatementKind::Skip:
      return Flow::Skip;
    case StatementKind::Drop:
      return Flow::Drop;
    case StatementKind::Assign:
      return assign(s, scope);
    case StatementKind::Expression:
      return eval(s.value, scope) ? Flow::Next : failure();
    case StatementKind::If: {
      std::optional<bool> holds = condition(s.value, scope);
      if (!holds) return failure();
      // The body of an `if` assigns to the surrounding names: no scope of its own.
      return run(*holds ? s.body : s.otherwise, scope);
    }
    case StatementKind::For:
      return for_loop(s, scope);
    case StatementKind::Either:
      return either(s, scope);
    case StatementKind::Require:
      return require(s, scope);
    case StatementKind::Try:
      return attempt(s, scope);
    case StatementKind::Draw:
      break;  // read as assignments
  }
  return Flow::Next;
}

Flow Evaluator::for_loop(const Statement& s, const std::shared_ptr<Scope>& scope) {
  std::optional<RuleValue> list = eval(s.value, scope);
  if (!list) return failure();
  if (list->tag != Tag::List) return wrong_type(s.value->span, "a list", *list);
  for (const RuleValue& item : *list->list) {
    auto inner = std::make_shared<Scope>();
    inner->parent = scope;
    if (!bind(s.variables, item, *inner, s.value->span)) return Flow::Error;
    Flow flow = run(s.body, inner);
    if (flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

Flow Evaluator::either(const Statement& s, const std::shared_ptr<Scope>& scope) {
  // All alternatives that are open here, lists unrolled.
  std::vector<std::pair<const Alternative*, std::optional<RuleValue>>> open;
  for (const Alternative& alternative : s.alternatives) {
    std::vector<std::optional<RuleValue>> items = {std::nullopt};
    if (alternative.over) {
      std::optional<RuleValue> list = eval(alternative.over, scope);
      if (!list) return failure();
      if (list->tag != Tag::List) return wrong_type(alternative.over->span, "a list", *list);
      items.assign(list->list->begin(), list->list->end());
    }
    for (std::optional<RuleValue>& item : items) {
      auto inner = std::make_shared<Scope>();
      inner->parent = scope;
      if (item) inner->set(alternative.variable, *item);
      std::optional<bool> holds = alternative.condition ? condition(alternative.condition, inner) : std::optional(true);
      if (!holds) return failure();
      if (*holds) open.emplace_back(&alternative, item);
    }
  }
  if (open.empty()) return Flow::Drop;
  if (next_choice_ == choices.size()) choices.push_back({});
  Choice& choice = choices[next_choice_++];
  choice.count = static_cast<int>(open.size());
  choice.taken = std::min(choice.taken, choice.count - 1);  // where it was made, more may have been open
  auto& [alternative, item] = open[static_cast<std::size_t>(choice.taken)];
  // Like `if`: names assigned inside are seen behind.
  if (item) scope->set(alternative->variable, *item);
  return run(alternative->body, scope);
}

Flow Evaluator::require(const Statement& s, const std::shared_ptr<Scope>& scope) {
  std::optional<RuleValue> value = eval(s.value, scope);
  if (!value) return failure();
  if (value->tag == Tag::Bool) return value->integer ? Flow::Next : Flow::Drop;
  if (value->tag != Tag::Open) return wrong_type(s.value->span, "a condition", *value);
  Arg arguments[] = {value->open};
  return instruction(*find_kind("require"), Array<Arg>(arguments), {}, s.span, /*reject_is_fine=*/true) ? Flow::Next
                                                                                                        : failure();
}

Evaluator::Snapshot Evaluator::snapshot(const std::shared_ptr<Scope>& scope) const {
  Snapshot now{sink_.mark(), known_loops_, open_loops_, open_values_, drawn_blocks_, conditions.size(), {}};
  for (std::shared_ptr<Scope> each = scope; each; each = each->parent) now.scopes.emplace_back(each, *each);
  return now;
}

void Evaluator::restore(Snapshot before) {
  sink_.restore(std::move(before.sink));
  known_loops_ = std::move(before.known_loops);
  open_loops_ = std::move(before.open_loops);
  open_values_ = std::move(before.open_values);
  drawn_blocks_ = std::move(before.drawn_blocks);
  conditions.erase(conditions.begin() + static_cast<std::ptrdiff_t>(before.conditions), conditions.end());
  for (auto& [scope, names] : before.scopes) *scope = std::move(names);
}

Flow Evaluator::attempt(const Statement& s, const std::shared_ptr<Scope>& scope) {
  if (!charge(100, s.span)) return Flow::Error;
  Snapshot before = snapshot(scope);
  Flow flow = run_nested(s.body, scope);
  if (flow != Flow::Rejected) return flow;
  caught_.push_back(rejected);
  failed_ = false;
  restore(std::move(before));
  // Choices made in the body stay in the list; those of `else` follow them.
  return run_nested(s.otherwise, scope);
}

Flow Evaluator::assign(const Statement& s, const std::shared_ptr<Scope>& scope) {
  std::vector<std::string> names;
  for (const ast::Expr* target : s.targets) {
    auto* name = ast::as<ast::Name>(target);
    names.emplace_back(name ? name->name : Str());
  }
  wanted_names_ = names;
  std::optional<RuleValue> value = eval(s.value, scope);
  wanted_names_.clear();
  if (!value) return failure();
  if (s.targets.size() == 1) return assign_one(s.targets[0], std::move(*value), scope);
  if (value->tag != Tag::List) return wrong_type(s.value->span, cat("a list of ", s.targets.size()), *value);
  if (value->list->size() != s.targets.size()) {
    error(s.value->span, cat("expected ", s.targets.size(), " values, found ", value->list->size()));
    return Flow::Error;
  }
  for (std::size_t i = 0; i < s.targets.size(); ++i) {
    Flow flow = assign_one(s.targets[i], (*value->list)[i], scope);
    if (flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

Flow Evaluator::assign_one(const ast::Expr* target, RuleValue value, const std::shared_ptr<Scope>& scope) {
  if (ast::as<ast::Hole>(target)) return Flow::Next;
  if (auto* name = ast::as<ast::Name>(target)) {
    // A name of an outer scope is changed there (a `for` body may accumulate), else it is new here.
    RuleValue* old = scope->find(name->name);
    if (old)
      *old = std::move(value);
    else
      scope->set(name->name, std::move(value));
    return Flow::Next;
  }
  auto* index = ast::as<ast::Index>(target);
  RuleValue* list = scope->find(ast::as<ast::Name>(index->value)->name);
  std::optional<RuleValue> at = index->indices.size() == 1 ? eval(index->indices[0], scope) : std::nullopt;
  if (index->indices.size() == 1 && !at) return failure();
  if (!list || list->tag != Tag::List || !at || at->tag != Tag::Int || at->integer < 0 ||
      at->integer >= static_cast<i64>(list->list->size())) {
    error(target->span, "expected an element of a list");
    return Flow::Error;
  }
  std::vector<RuleValue> copy = *list->list;
  copy[at->integer] = std::move(value);
  *list = RuleValue::of(std::move(copy));
  // The list is copied, which is much less work than making its elements.
  return check_size(*list, target->span) && charge(static_cast<i64>(list->list->size()) / 16, target->span)
             ? Flow::Next
             : Flow::Error;
}

}  // namespace tw::rules
