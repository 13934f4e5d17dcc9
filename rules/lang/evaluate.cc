#include "rules/lang/evaluate.h"

#include <algorithm>
#include <unordered_set>

#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "rules/lang/list_functions.h"

namespace tw::rules {

const char* name_of(RuleValue::Tag tag) {
  constexpr const char* names[] = {"none", "a boolean", "an integer", "a text", "a list", "a loop", "a block", "a function", "an open value"};
  return names[static_cast<int>(tag)];
}

namespace {

using Tag = RuleValue::Tag;

// Where instructions go: a Schedule that records, or a bare State (postprocessing in the search).
class Sink {
 public:
  explicit Sink(Schedule& schedule) : schedule_(&schedule) {}
  explicit Sink(State& state) : bare_(&state) {}
  const State& state() const { return schedule_ ? schedule_->state() : *bare_; }
  Result<u32> apply(const InstructionKind& kind, Array<Arg> arguments, Array<Str> names) {
    if (schedule_) return schedule_->apply(kind, arguments, {}, names);
    u32 first = static_cast<u32>(bare_->values().size());
    Decision none;
    Status status = kind.apply(*bare_, arguments, {&none, nullptr, false}, bare_->values());
    if (status) return first;
    bare_->values().resize(first, Value{});
    Reject why = status.rejected();
    why.instruction = kind.name;
    return why;
  }
  bool records() const { return schedule_ != nullptr; }
  std::size_t instructions() const { return schedule_ ? schedule_->trace().instructions().size() : 0; }
  Schedule& schedule() { return *schedule_; }

 private:
  Schedule* schedule_ = nullptr;
  State* bare_ = nullptr;
};

enum class Flow : u8 { Next, Skip, Drop, Rejected, Error };

class Evaluator {
 public:
  Evaluator(const RuleUse& use, const FunctionTable& functions, Sink sink, const TargetFacts& target, const Limits& limits,
            Diagnostics& diagnostics)
      : use_(use), functions_(functions), sink_(sink), target_(target), limits_(limits), diagnostics_(diagnostics),
        steps_left_(limits.steps) {
    if (sink_.records()) {
      for_each<For>(sink_.state().program().body, [&](const For* loop) { known_loops_.insert(loop->id.value); });
    }
  }

  // Alternatives to take at the next `either`s; grows with those that are met.
  struct Choice {
    int taken, count;
  };
  std::vector<Choice> choices;
  Reject rejected;
  // Loops whose extent depends on no sample, carried from rule to rule by the caller through the trace: those of the base program.
  void assume_open(const std::unordered_set<u32>& open) { open_loops_ = open; }

  Flow run(BlockId block) {
    auto scope = std::make_shared<Scope>();
    scope->set(use_.rule->argument, use_.rule->visits_program ? RuleValue::none() : RuleValue::of(block));
    if (!bind_params(*scope)) return Flow::Error;
    if (use_.rule->when) {
      std::optional<bool> holds = condition(use_.rule->when, scope);
      if (!holds) return Flow::Error;
      if (!*holds) return Flow::Drop;
    }
    applied_ = true;
    return run(use_.rule->body, scope);
  }
  bool applied() const { return applied_; }

 private:
  bool bind_params(Scope& scope) {
    auto empty = std::make_shared<Scope>();
    for (const RuleParam& param : use_.rule->params) {
      const ast::Expr* value = param.value;
      for (const ast::Argument& argument : use_.arguments) {
        if (argument.name == param.name) value = argument.value;
      }
      std::optional<RuleValue> made = eval(value, empty);
      if (!made) return false;
      scope.set(param.name, std::move(*made));
    }
    return true;
  }

  // ---- statements

  Flow run(const Statements& statements, const std::shared_ptr<Scope>& scope) {
    for (const Statement& statement : statements) {
      if (--steps_left_ < 0) return error(statement.span, cat("the rule takes more than ", limits_.steps, " steps")), Flow::Error;
      Flow flow = run(statement, scope);
      if (flow != Flow::Next) return flow;
    }
    return Flow::Next;
  }

  Flow run_nested(const Statements& statements, const std::shared_ptr<Scope>& scope) {
    auto inner = std::make_shared<Scope>();
    inner->parent = scope;
    return run(statements, inner);
  }

  Flow run(const Statement& s, const std::shared_ptr<Scope>& scope) {
    switch (s.kind) {
      case StatementKind::Skip: return Flow::Skip;
      case StatementKind::Drop: return Flow::Drop;
      case StatementKind::Assign: return assign(s, scope);
      case StatementKind::Expression: return eval(s.value, scope) ? Flow::Next : failure();
      case StatementKind::If: {
        std::optional<bool> holds = condition(s.value, scope);
        if (!holds) return failure();
        // The body of an `if` assigns to the surrounding names: no scope of its own.
        return run(*holds ? s.body : s.otherwise, scope);
      }
      case StatementKind::For: return for_loop(s, scope);
      case StatementKind::Either: return either(s, scope);
      case StatementKind::Require: return require(s, scope);
      case StatementKind::Try: return attempt(s, scope);
    }
    return Flow::Next;
  }

  Flow for_loop(const Statement& s, const std::shared_ptr<Scope>& scope) {
    std::optional<RuleValue> list = eval(s.value, scope);
    if (!list) return failure();
    if (list->tag != Tag::List) return wrong_type(s.value->span, "a list", *list);
    for (const RuleValue& item : *list->list) {
      auto inner = std::make_shared<Scope>();
      inner->parent = scope;
      inner->set(s.variable, item);
      Flow flow = run(s.body, inner);
      if (flow != Flow::Next) return flow;
    }
    return Flow::Next;
  }

  Flow either(const Statement& s, const std::shared_ptr<Scope>& scope) {
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
    if (next_choice_ == choices.size()) choices.push_back({0, static_cast<int>(open.size())});
    auto& [alternative, item] = open[choices[next_choice_++].taken];
    // Like `if`: names assigned inside are seen behind.
    if (item) scope->set(alternative->variable, *item);
    return run(alternative->body, scope);
  }

  Flow require(const Statement& s, const std::shared_ptr<Scope>& scope) {
    std::optional<RuleValue> value = eval(s.value, scope);
    if (!value) return failure();
    if (value->tag == Tag::Bool) return value->integer ? Flow::Next : Flow::Drop;
    if (value->tag != Tag::Open) return wrong_type(s.value->span, "a condition", *value);
    Arg arguments[] = {value->open};
    return instruction(*find_kind("require"), Array<Arg>(arguments), {}, s.span, /*reject_is_fine=*/true) ? Flow::Next : failure();
  }

  Flow attempt(const Statement& s, const std::shared_ptr<Scope>& scope) {
    if (!sink_.records()) {
      // On a bare state a rejected instruction changes nothing, so `try` holds one instruction at a time there.
      Flow flow = run_nested(s.body, scope);
      return flow == Flow::Rejected ? run_nested(s.otherwise, scope) : flow;
    }
    Schedule before = sink_.schedule().fork();
    std::size_t choice = next_choice_;
    Flow flow = run_nested(s.body, scope);
    if (flow != Flow::Rejected) return flow;
    sink_.schedule() = std::move(before);
    next_choice_ = choice;
    return run_nested(s.otherwise, scope);
  }

  Flow assign(const Statement& s, const std::shared_ptr<Scope>& scope) {
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

  Flow assign_one(const ast::Expr* target, RuleValue value, const std::shared_ptr<Scope>& scope) {
    if (ast::as<ast::Hole>(target)) return Flow::Next;
    if (auto* name = ast::as<ast::Name>(target)) {
      // A name of an outer scope is changed there (a `for` body may accumulate), else it is new here.
      RuleValue* old = scope->find(name->name);
      if (old) *old = std::move(value);
      else scope->set(name->name, std::move(value));
      return Flow::Next;
    }
    auto* index = ast::as<ast::Index>(target);
    RuleValue* list = scope->find(ast::as<ast::Name>(index->value)->name);
    std::optional<RuleValue> at = index->indices.size() == 1 ? eval(index->indices[0], scope) : std::nullopt;
    if (!list || list->tag != Tag::List || !at || at->tag != Tag::Int || at->integer < 0 ||
        at->integer >= static_cast<i64>(list->list->size())) {
      error(target->span, "expected an element of a list");
      return Flow::Error;
    }
    auto copy = std::make_shared<std::vector<RuleValue>>(*list->list);
    (*copy)[at->integer] = std::move(value);
    list->list = copy;
    return Flow::Next;
  }

  // ---- expressions; nothing after a reject (rejected_ is set) or an error (reported)

  std::optional<RuleValue> eval(const ast::Expr* e, const std::shared_ptr<Scope>& scope) {
    if (--steps_left_ < 0) return error(e->span, cat("the rule takes more than ", limits_.steps, " steps"));
    switch (e->kind) {
      case ast::Kind::Int: return RuleValue::of(ast::as<ast::Int>(e)->value);
      case ast::Kind::Bool: return RuleValue::of(ast::as<ast::Bool>(e)->value);
      case ast::Kind::Text: return RuleValue::of(std::string(ast::as<ast::Text>(e)->value));
      case ast::Kind::None: return RuleValue::none();
      case ast::Kind::Hole: return RuleValue::of_open({.tag = Arg::Tag::Hole});
      case ast::Kind::Name: return eval_name(ast::as<ast::Name>(e), scope);
      case ast::Kind::List: return eval_items(ast::as<ast::List>(e)->items, scope);
      case ast::Kind::Tuple: return eval_items(ast::as<ast::Tuple>(e)->items, scope);
      case ast::Kind::Comprehension: return eval_comprehension(ast::as<ast::Comprehension>(e), scope);
      case ast::Kind::Index: return eval_index(ast::as<ast::Index>(e), scope);
      case ast::Kind::Member: return eval_member(ast::as<ast::Member>(e));
      case ast::Kind::Unary: return eval_unary(ast::as<ast::Unary>(e), scope);
      case ast::Kind::Binary: return eval_binary(ast::as<ast::Binary>(e), scope);
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
        return value;
      }
      case ast::Kind::Test: {
        std::optional<RuleValue> value = eval(ast::as<ast::Test>(e)->value, scope);
        if (!value) return std::nullopt;
        return RuleValue::of(value->tag != Tag::None);
      }
      case ast::Kind::Call: return eval_call(ast::as<ast::Call>(e), scope);
      default: return error(e->span, "not an expression of the rule language");
    }
  }

  std::optional<RuleValue> eval_name(const ast::Name* n, const std::shared_ptr<Scope>& scope) {
    if (RuleValue* value = scope->find(n->name)) return *value;
    if (n->name == "S" || n->name == "R") return RuleValue::of(std::string(n->name));
    return error(n->span, cat("`", n->name, "` is not defined here"));
  }

  std::optional<RuleValue> eval_items(Array<const ast::Expr*> items, const std::shared_ptr<Scope>& scope) {
    std::vector<RuleValue> values;
    for (const ast::Expr* item : items) {
      std::optional<RuleValue> value = eval(item, scope);
      if (!value) return std::nullopt;
      values.push_back(std::move(*value));
    }
    return RuleValue::of(std::move(values));
  }

  std::optional<RuleValue> eval_comprehension(const ast::Comprehension* n, const std::shared_ptr<Scope>& scope) {
    std::optional<RuleValue> over = eval(n->over, scope);
    if (!over) return std::nullopt;
    if (over->tag != Tag::List) return type_error(n->over->span, "a list", *over);
    std::vector<RuleValue> values;
    for (const RuleValue& item : *over->list) {
      auto inner = std::make_shared<Scope>();
      inner->parent = scope;
      if (!bind(n->names, item, *inner, n->span)) return std::nullopt;
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

  bool bind(Array<const ast::Name*> names, const RuleValue& item, Scope& scope, Span span) {
    if (names.size() == 1) {
      scope.set(names[0]->name, item);
      return true;
    }
    if (item.tag != Tag::List || item.list->size() != names.size()) {
      error(span, cat("expected a list of ", names.size(), " to take apart"));
      return false;
    }
    for (std::size_t i = 0; i < names.size(); ++i) scope.set(names[i]->name, (*item.list)[i]);
    return true;
  }

  std::optional<RuleValue> eval_index(const ast::Index* n, const std::shared_ptr<Scope>& scope) {
    std::optional<RuleValue> list = eval(n->value, scope);
    if (!list) return std::nullopt;
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

  std::optional<RuleValue> eval_member(const ast::Member* n) {
    auto* base = ast::as<ast::Name>(n->value);
    struct Row {
      const char* name;
      i64 TargetFacts::*field;
    };
    static constexpr Row rows[] = {{"vector_bits", &TargetFacts::vector_bits}, {"vector_registers", &TargetFacts::vector_registers},
                                   {"threads", &TargetFacts::threads},         {"l1_bytes", &TargetFacts::l1_bytes},
                                   {"l2_bytes", &TargetFacts::l2_bytes},       {"l3_bytes", &TargetFacts::l3_bytes},
                                   {"cache_line", &TargetFacts::cache_line}};
    if (!base || base->name != "target") return error(n->span, "only `target` has members");
    std::vector<std::string> names;
    for (const Row& row : rows) {
      if (n->name == row.name) return RuleValue::of(target_.*row.field);
      names.emplace_back(row.name);
    }
    std::string near = closest(n->name, names);
    return error(n->span, cat("a target has no `", n->name, "`"), near.empty() ? cat("it has ", join(names, ", ")) : cat("did you mean `", near, "`?"));
  }

  std::optional<RuleValue> eval_unary(const ast::Unary* n, const std::shared_ptr<Scope>& scope) {
    std::optional<RuleValue> value = eval(n->value, scope);
    if (!value) return std::nullopt;
    if (n->op == UnaryOp::Not && value->tag == Tag::Bool) return RuleValue::of(!value->integer);
    if (n->op == UnaryOp::Neg && value->tag == Tag::Int) return RuleValue::of(-value->integer);
    return type_error(n->value->span, n->op == UnaryOp::Not ? "a boolean" : "an integer", *value);
  }

  std::optional<RuleValue> eval_binary(const ast::Binary* n, const std::shared_ptr<Scope>& scope) {
    std::optional<RuleValue> a = eval(n->a, scope);
    if (!a) return std::nullopt;
    if (a->tag == Tag::Bool && (n->op == BinaryOp::And || n->op == BinaryOp::Or) && (a->integer != 0) == (n->op == BinaryOp::Or)) {
      return a;  // decided: `b` may be meaningless then
    }
    std::optional<RuleValue> b = eval(n->b, scope);
    if (!b) return std::nullopt;
    return combine(n, *a, *b);
  }

  std::optional<RuleValue> combine(const ast::Binary* n, const RuleValue& a, const RuleValue& b) {
    auto number = [](const RuleValue& v) { return v.tag == Tag::Int || v.tag == Tag::Bool; };
    if (n->op == BinaryOp::Div) return error(n->op_span, "integers divide with //");
    if (number(a) && number(b)) {
      Arena scratch(512);
      Build build{scratch};
      const Expr* folded = build.binary(n->op, build.integer(a.integer), build.integer(b.integer));
      std::optional<i64> value = constant_of(folded);
      if (!value) return error(n->op_span, "division by zero");
      bool is_bool = folded->type.dtype == DType::Bool || (a.tag == Tag::Bool && b.tag == Tag::Bool);
      return is_bool ? RuleValue::of(*value != 0) : RuleValue::of(*value);
    }
    if ((a.tag == Tag::Open || number(a)) && (b.tag == Tag::Open || number(b))) {
      return RuleValue::of_open({.tag = Arg::Tag::Binary, .op = n->op, .items = arena().list<Arg>({arg_of(a), arg_of(b)})});
    }
    if (n->op == BinaryOp::Add && a.tag == Tag::List && b.tag == Tag::List) {
      std::vector<RuleValue> joined = *a.list;
      joined.insert(joined.end(), b.list->begin(), b.list->end());
      return RuleValue::of(std::move(joined));
    }
    if (n->op == BinaryOp::Eq || n->op == BinaryOp::Ne) return RuleValue::of(same(a, b) == (n->op == BinaryOp::Eq));
    return error(n->op_span, cat("`", name_of(n->op), "` between ", name_of(a.tag), " and ", name_of(b.tag)));
  }

  static bool same(const RuleValue& a, const RuleValue& b) {
    if (a.tag != b.tag) return false;
    if (a.tag == Tag::Text) return a.text == b.text;
    if (a.tag != Tag::List) return a.integer == b.integer;
    return std::equal(a.list->begin(), a.list->end(), b.list->begin(), b.list->end(), [](auto& x, auto& y) { return same(x, y); });
  }

  static Arg arg_of(const RuleValue& v) { return v.tag == Tag::Open ? v.open : Arg::of_int(v.integer); }

  std::optional<bool> condition(const ast::Expr* e, const std::shared_ptr<Scope>& scope) {
    std::optional<RuleValue> value = eval(e, scope);
    if (!value) return std::nullopt;
    if (value->tag == Tag::Bool) return value->integer != 0;
    if (value->tag == Tag::Open) {
      error(e->span, "this condition depends on a sample, so the space would depend on a draw",
            "`if`, `when` and `either` take fixed values only; use `require`, or a list of sketches");
      return std::nullopt;
    }
    type_error(e->span, "a condition", *value);
    return std::nullopt;
  }

  // ---- calls

  std::optional<RuleValue> eval_call(const ast::Call* n, const std::shared_ptr<Scope>& scope) {
    std::vector<std::string> names;
    names.swap(wanted_names_);  // they are for this call, not for calls in its arguments
    auto* callee = ast::as<ast::Name>(n->callee);
    if (!callee) return error(n->callee->span, "expected the name of a function or an instruction");
    std::vector<RuleValue> values;
    for (const ast::Argument& argument : n->arguments) {
      std::optional<RuleValue> value = eval(argument.value, scope);
      if (!value) return std::nullopt;
      values.push_back(std::move(*value));
    }
    if (const InstructionKind* kind = find_kind(callee->name)) return call_instruction(*kind, n, values, names);
    for (const ast::Argument& argument : n->arguments) {
      if (!argument.name.empty()) return error(argument.name_span, "only instructions take named arguments");
    }
    if (RuleValue* local = scope->find(callee->name); local && local->tag == Tag::Lambda) return call_lambda(*local, values, n->span);
    for (std::size_t i = functions_.size(); i-- > 0;) {
      if (functions_[i].first == callee->name) return call_user(*functions_[i].second.second, values, n->span);
    }
    if (callee->name == "loops" && values.size() == 1 && values[0].tag == Tag::Block) return loops_of(values[0].block(), n->span);
    if (const ListFunction* function = find_list_function(callee->name)) return call_list_function(*function, values, n->span);
    if (const AnalysisFunction* function = find_function(callee->name)) return call_analysis(*function, values, n->span);
    return unknown_function(callee);
  }

  std::optional<RuleValue> unknown_function(const ast::Name* callee) {
    std::vector<std::string> names;
    for (const InstructionKind* kind : instruction_kinds()) names.emplace_back(kind->name);
    for (const AnalysisFunction& function : analysis_functions()) names.emplace_back(function.name);
    for (const auto& [name, function] : functions_) names.push_back(name);
    std::string near = closest(callee->name, names);
    return error(callee->span, cat("unknown function or instruction `", callee->name, "`"), near.empty() ? "" : cat("did you mean `", near, "`?"));
  }

  std::optional<RuleValue> call_lambda(const RuleValue& lambda, const std::vector<RuleValue>& values, Span span) {
    if (lambda.lambda->parameters.size() != values.size()) {
      return error(span, cat("the function takes ", lambda.lambda->parameters.size(), " arguments, found ", values.size()));
    }
    auto inner = std::make_shared<Scope>();
    inner->parent = lambda.scope;
    for (std::size_t i = 0; i < values.size(); ++i) inner->set(lambda.lambda->parameters[i]->name, values[i]);
    return eval(lambda.lambda->body, inner);
  }

  std::optional<RuleValue> call_user(const UserFunction& function, const std::vector<RuleValue>& values, Span span) {
    if (function.parameters.size() != values.size()) {
      return error(span, cat(function.name, " takes ", function.parameters.size(), " arguments, found ", values.size()));
    }
    if (++depth_ > 64) return error(span, "functions nested more than 64 deep");
    auto inner = std::make_shared<Scope>();
    for (std::size_t i = 0; i < values.size(); ++i) inner->set(function.parameters[i], values[i]);
    std::optional<RuleValue> value = eval(function.body, inner);
    --depth_;
    return value;
  }

  std::optional<RuleValue> call_list_function(const ListFunction& function, const std::vector<RuleValue>& values, Span span) {
    auto apply = [&](const RuleValue& f, const RuleValue& x) { return call_lambda(f, {x}, span); };
    FunctionResult result = function.call(arena(), values, apply);
    if (!result.error.empty()) return failed_ ? std::nullopt : error(span, cat(function.name, ": ", result.error));
    return result.value;
  }

  std::optional<RuleValue> call_analysis(const AnalysisFunction& function, const std::vector<RuleValue>& values, Span span) {
    if (static_cast<int>(values.size()) != function.arity) {
      return error(span, cat(function.name, function.signature, " takes ", function.arity, " arguments, found ", values.size()));
    }
    FunctionContext context{sink_.state(), target_, [&](LoopId id) { return is_open(id); }};
    FunctionResult result = function.call(context, values);
    if (!result.error.empty()) return error(span, cat(function.name, ": ", result.error));
    // extent() of an open loop becomes an argument that is evaluated at replay.
    if (result.value.tag == Tag::Open && result.value.open.tag == Arg::Tag::Extent) {
      std::optional<Arg> handle = loop_arg({static_cast<u32>(result.value.open.integer)}, span);
      if (!handle) return std::nullopt;
      result.value.open = {.tag = Arg::Tag::Extent, .items = arena().list<Arg>({*handle})};
    }
    return result.value;
  }

  // ---- instructions

  std::optional<RuleValue> call_instruction(const InstructionKind& kind, const ast::Call* n, const std::vector<RuleValue>& values,
                                            const std::vector<std::string>& names) {
    std::vector<Arg> arguments(kind.parameters.size());
    std::vector<bool> given(kind.parameters.size(), false);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const ast::Argument& argument = n->arguments[i];
      std::size_t index = i;
      if (!argument.name.empty()) {
        for (index = 0; index < kind.parameters.size() && kind.parameters[index].name != argument.name; ++index) {
        }
      }
      if (index >= kind.parameters.size()) {
        return error(argument.value->span, argument.name.empty() ? cat(kind.name, " takes ", kind.parameters.size(), " arguments")
                                                                 : cat(kind.name, " has no parameter `", argument.name, "`"));
      }
      std::optional<Arg> arg = to_arg(values[i], argument.value->span);
      if (!arg) return std::nullopt;
      arguments[index] = *arg;
      given[index] = true;
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (given[i]) continue;
      if (kind.parameters[i].fallback.empty()) return error(n->span, cat(kind.name, ": parameter `", kind.parameters[i].name, "` is missing"));
      arguments[i] = default_argument(kind.parameters[i]);
    }
    return instruction(kind, arguments, names, n->span, std::string_view(kind.name) == "prefer");
  }

  std::optional<Arg> to_arg(const RuleValue& value, Span span) {
    switch (value.tag) {
      case Tag::None: return Arg{};
      case Tag::Bool: case Tag::Int: return Arg::of_int(value.integer);
      case Tag::Text: return Arg::of_text(arena().text(value.text));
      case Tag::Open: return value.open;
      case Tag::Loop: return loop_arg(value.loop(), span);
      case Tag::Block: return block_arg(value.block(), span);
      case Tag::List: {
        std::vector<Arg> items;
        for (const RuleValue& item : *value.list) {
          std::optional<Arg> arg = to_arg(item, span);
          if (!arg) return std::nullopt;
          items.push_back(*arg);
        }
        return Arg{.tag = Arg::Tag::List, .items = arena().copy(items)};
      }
      case Tag::Lambda: return map_arg(value, span);
    }
    return std::nullopt;
  }

  // An index map: the lambda's body with its parameters standing for the map's.
  std::optional<Arg> map_arg(const RuleValue& value, Span span) {
    std::vector<RuleValue> params;
    for (std::size_t i = 0; i < value.lambda->parameters.size(); ++i) {
      params.push_back(RuleValue::of_open({.tag = Arg::Tag::Param, .integer = static_cast<i64>(i)}));
    }
    std::optional<RuleValue> body = call_lambda(value, params, span);
    if (!body) return std::nullopt;
    if (body->tag != Tag::List) body = RuleValue::of(std::vector<RuleValue>{*body});
    std::optional<Arg> items = to_arg(*body, span);
    if (!items) return std::nullopt;
    return Arg{.tag = Arg::Tag::Map, .integer = static_cast<i64>(params.size()), .items = items->items};
  }

  std::optional<Arg> find_handle(Value::Tag tag, i64 id) {
    const std::vector<Value>& values = sink_.state().values();
    for (std::size_t i = values.size(); i-- > 0;) {
      bool is_it = values[i].tag == tag && values[i].payload == id;
      if (is_it && !open_values_.count(static_cast<u32>(i))) return Arg::of_value(static_cast<u32>(i));
    }
    return std::nullopt;
  }

  // A handle that no instruction made yet (an analysis function found it) is made by a query, recorded like any other.
  std::optional<Arg> block_arg(BlockId id, Span span) {
    if (std::optional<Arg> known = find_handle(Value::Tag::Block, id.value)) return known;
    const Block* block = sink_.state().find_block(id);
    if (!block) return error(span, "the block no longer exists"), std::nullopt;
    Arg name[] = {Arg::of_text(block->name)};
    if (!instruction(*find_kind("get_block"), Array<Arg>(name), {}, span, false)) return std::nullopt;
    return find_handle(Value::Tag::Block, id.value);
  }

  std::optional<Arg> loop_arg(LoopId id, Span span) {
    if (std::optional<Arg> known = find_handle(Value::Tag::Loop, id.value)) return known;
    const For* loop = sink_.state().find_loop(id);
    const Block* inside = nullptr;
    if (loop) for_each<Block>(loop->body, [&](const Block* block) { inside = inside ? inside : block; });
    if (!inside) return error(span, "the loop no longer exists: an earlier instruction replaced it"), std::nullopt;
    if (!loops_of(inside->id, span)) return std::nullopt;
    return find_handle(Value::Tag::Loop, id.value);
  }

  std::optional<RuleValue> loops_of(BlockId id, Span span) {
    std::optional<Arg> block = block_arg(id, span);
    if (!block) return std::nullopt;
    Arg arguments[] = {*block};
    return instruction(*find_kind("get_loops"), Array<Arg>(arguments), {}, span, false);
  }

  std::optional<RuleValue> instruction(const InstructionKind& kind, Array<Arg> arguments, const std::vector<std::string>& names, Span span,
                                       bool reject_is_fine) {
    if (static_cast<int>(sink_.instructions()) >= limits_.instructions) {
      return error(span, cat("the trace has more than ", limits_.instructions, " instructions"));
    }
    bool open = kind.samples || std::any_of(arguments.begin(), arguments.end(), [&](const Arg& a) { return is_open(a); });
    std::vector<Str> views(names.begin(), names.end());
    Result<u32> first = sink_.apply(kind, arguments, views);
    if (!first) {
      // A draw that a require excludes says nothing about the sketch: the instruction stays, the space is conditioned at the draw.
      if (reject_is_fine && sink_.records()) return record_unchecked(kind, arguments);
      rejected = first.rejected();
      failed_ = true;
      return std::nullopt;
    }
    note_loops(open && !kind.pure);
    if (kind.samples || (open && std::string_view(kind.name) == "choose")) note_drawn_handles(*first);
    return result_of(kind, *first);
  }

  std::optional<RuleValue> record_unchecked(const InstructionKind& kind, Array<Arg> arguments) {
    sink_.schedule().record_without_applying(kind, arguments);
    return RuleValue::none();
  }

  RuleValue result_of(const InstructionKind& kind, u32 first) {
    const std::vector<Value>& values = sink_.state().values();
    std::vector<RuleValue> made;
    for (u32 i = first; i < values.size(); ++i) {
      if (open_values_.count(i)) {
        made.push_back(RuleValue::of_open(Arg::of_value(i)));
        continue;
      }
      switch (values[i].tag) {
        case Value::Tag::Loop: made.push_back(RuleValue::of(LoopId{static_cast<u32>(values[i].payload)})); break;
        case Value::Tag::Block: made.push_back(RuleValue::of(BlockId{static_cast<u32>(values[i].payload)})); break;
        default: made.push_back(RuleValue::of_open(Arg::of_value(i)));
      }
    }
    if (kind.result == "Unit") return RuleValue::none();
    bool list = kind.result == "Loops" || kind.result == "Blocks" || kind.result == "Ints";
    return list ? RuleValue::of(std::move(made)) : made[0];
  }

  // ---- open loops: those that an instruction with an open argument made, and those made from them

  bool is_open(LoopId id) const { return sink_.records() && open_loops_.count(id.value); }
  bool is_open(const Arg& arg) const {
    if (arg.tag == Arg::Tag::Extent) return true;
    if (arg.tag == Arg::Tag::Value) {
      const Value& value = sink_.state().values()[arg.integer];
      if (value.tag == Value::Tag::Int || value.tag == Value::Tag::Location) return true;
      if (open_values_.count(static_cast<u32>(arg.integer))) return true;
      if (value.tag == Value::Tag::Loop) return open_loops_.count(static_cast<u32>(value.payload)) > 0;
      return block_is_open({static_cast<u32>(value.payload)});
    }
    return std::any_of(arg.items.begin(), arg.items.end(), [&](const Arg& item) { return is_open(item); });
  }
  // What is done to a block among open loops may make more of them.
  bool block_is_open(BlockId id) const {
    auto loops = sink_.state().loops_around(id);
    return loops && std::any_of(loops->begin(), loops->end(), [&](const For* loop) { return open_loops_.count(loop->id.value) > 0; });
  }
  void note_loops(bool open) {
    if (!sink_.records()) return;
    for_each<For>(sink_.state().program().body, [&](const For* loop) {
      if (known_loops_.insert(loop->id.value).second && open) open_loops_.insert(loop->id.value);
    });
  }

  // Which loop a drawn handle is depends on the draw: it stands for itself, not for the loop that it happens to be.
  void note_drawn_handles(u32 first) {
    for (u32 i = first; sink_.records() && i < sink_.state().values().size(); ++i) open_values_.insert(i);
  }

  Arena& arena() { return sink_.state().arena(); }
  Flow failure() const { return failed_ ? Flow::Rejected : Flow::Error; }
  std::nullopt_t error(Span span, std::string message, std::string note = "") {
    diagnostics_.error(span, std::move(message), std::move(note));
    return std::nullopt;
  }
  std::nullopt_t type_error(Span span, std::string_view expected, const RuleValue& found) {
    return error(span, cat("expected ", expected, ", found ", name_of(found.tag)));
  }
  Flow wrong_type(Span span, std::string_view expected, const RuleValue& found) {
    type_error(span, expected, found);
    return Flow::Error;
  }

 public:
  const std::unordered_set<u32>& open_loops() const { return open_loops_; }

 private:
  const RuleUse& use_;
  const FunctionTable& functions_;
  Sink sink_;
  const TargetFacts& target_;
  const Limits& limits_;
  Diagnostics& diagnostics_;
  i64 steps_left_;
  int depth_ = 0;
  std::size_t next_choice_ = 0;
  bool applied_ = false, failed_ = false;
  std::vector<std::string> wanted_names_;  // of the results of the next instruction
  std::unordered_set<u32> known_loops_, open_loops_;
  std::unordered_set<u32> open_values_;  // handles made by samples and by choose
};

// Loops of a schedule that depend on samples: every loop that its base program did not have, unless the trace has no sample.
std::unordered_set<u32> open_loops_of(const Schedule& schedule) {
  std::unordered_set<u32> open;
  if (schedule.trace().sample_count() == 0) return open;
  u32 first_made = schedule.base_loop_count();
  for_each<For>(schedule.program().body, [&](const For* loop) {
    if (loop->id.value >= first_made) open.insert(loop->id.value);
  });
  return open;
}

}  // namespace

RuleOutcome apply_rule(const RuleUse& use, const FunctionTable& functions, const Schedule& base, BlockId block, const TargetFacts& target,
                       const Limits& limits, Diagnostics& diagnostics) {
  RuleOutcome outcome;
  std::vector<Evaluator::Choice> choices;
  std::unordered_set<u32> open = open_loops_of(base);
  for (int forks = 0;; ++forks) {
    if (forks == limits.forks_per_block) {
      diagnostics.error(use.rule->span, cat("the rule makes more than ", limits.forks_per_block, " sketches of one block"));
      return {};
    }
    Schedule schedule = base.fork();
    Evaluator evaluator(use, functions, Sink(schedule), target, limits, diagnostics);
    evaluator.choices = choices;
    evaluator.assume_open(open);
    Flow flow = evaluator.run(block);
    outcome.applied |= evaluator.applied();
    if (flow == Flow::Error) return {};
    if (flow == Flow::Next || flow == Flow::Skip) outcome.schedules.push_back(std::move(schedule));
    if (flow == Flow::Rejected) outcome.rejects.push_back({std::string(use.rule->name), to_string(evaluator.rejected)});
    choices = evaluator.choices;
    while (!choices.empty() && choices.back().taken + 1 == choices.back().count) choices.pop_back();
    if (choices.empty()) return outcome;
    ++choices.back().taken;
  }
}

namespace {
Status run_post(const RuleUse& use, const FunctionTable& functions, Sink sink, const TargetFacts& target, Diagnostics& diagnostics) {
  static const Limits limits;
  Evaluator evaluator(use, functions, sink, target, limits, diagnostics);
  Flow flow = evaluator.run({});
  if (flow == Flow::Rejected) return evaluator.rejected;
  if (flow == Flow::Error) return reject("the postprocessor has an error in its text");
  return ok();
}
}  // namespace

Status apply_post(const RuleUse& use, const FunctionTable& functions, State& state, const TargetFacts& target, Diagnostics& diagnostics) {
  return run_post(use, functions, Sink(state), target, diagnostics);
}

Status apply_post(const RuleUse& use, const FunctionTable& functions, Schedule& schedule, const TargetFacts& target,
                  Diagnostics& diagnostics) {
  return run_post(use, functions, Sink(schedule), target, diagnostics);
}

}  // namespace tw::rules
