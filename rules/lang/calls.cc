#include "rules/lang/evaluator.h"
#include "rules/lang/type_checker.h"

namespace tw::rules {

std::optional<RuleValue> Evaluator::eval_call(const ast::Call* n, const std::shared_ptr<Scope>& scope) {
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
  if (RuleValue* local = scope->find(callee->name); local && local->tag == Tag::Lambda)
    return call_lambda(*local, values, n->span);
  if (auto* own = find_visible(declared_.functions, callee->name, module_))
    return call_user(*own->home, *own->what, values, n->span);
  if (auto* own = find_visible(declared_.steps, callee->name, module_))
    return call_step(*own->home, *own->what, values, n->span);
  if (callee->name == "loops" && values.size() == 1 && values[0].tag == Tag::Block)
    return without_drawn_order(values, loops_of(values[0].block(), n->span, !sink_.records()), n->span);
  if (const ListFunction* function = find_list_function(callee->name))
    return call_list_function(*function, values, n->span);
  if (const AnalysisFunction* function = find_function(callee->name))
    return without_drawn_order(values, call_analysis(*function, values, n->span), n->span);
  return unknown_function(callee);
}

std::optional<RuleValue> Evaluator::unknown_function(const ast::Name* callee) {
  if (std::optional<Unexported> other = unexported_function(callee->name, declared_))
    return error(callee->span, other->message, other->note);
  return error(callee->span, cat("unknown function or instruction `", callee->name, "`"),
               near_function(callee->name, declared_, module_));
}

std::optional<RuleValue> Evaluator::call_lambda(const RuleValue& lambda, const std::vector<RuleValue>& values,
                                                Span span) {
  if (lambda.lambda->parameters.size() != values.size()) {
    return error(span,
                 cat("the function takes ", lambda.lambda->parameters.size(), " arguments, found ", values.size()));
  }
  if (depth_ >= limits_.call_depth)
    return error(span, cat("functions nested more than ", limits_.call_depth, " deep"), "does one call itself?");
  auto inner = std::make_shared<Scope>();
  inner->parent = lambda.scope;
  for (std::size_t i = 0; i < values.size(); ++i) inner->set(lambda.lambda->parameters[i]->name, values[i]);
  ++functions_;
  auto where = [&](const Diagnostics&) { return cat("in a function of ", lambda.home->source->name, ": "); };
  std::optional<RuleValue> value =
      in_module(*lambda.home, span, /*always=*/false, where, [&] { return eval(lambda.lambda->body, inner); });
  --functions_;
  return value;
}

std::optional<RuleValue> Evaluator::in_module(const Module& home, Span span, bool always,
                                              const std::function<std::string(const Diagnostics&)>& where,
                                              const std::function<std::optional<RuleValue>()>& run) {
  Diagnostics inside(*home.source), *outside = diagnostics_;
  const Module* from = module_;
  if (always || &outside->source() != home.source.get()) diagnostics_ = &inside;
  module_ = &home;
  ++depth_;
  std::optional<RuleValue> value = run();
  --depth_;
  module_ = from;
  diagnostics_ = outside;
  if (inside.has_errors()) return error(span, where(inside) + inside.all()[0].message, inside.all()[0].note);
  return value;
}

std::optional<RuleValue> Evaluator::call_user(const Module& home, const UserFunction& function,
                                              const std::vector<RuleValue>& values, Span span) {
  if (function.parameters.size() != values.size()) {
    return error(span, cat(function.name, " takes ", function.parameters.size(), " arguments, found ", values.size()));
  }
  if (depth_ >= limits_.call_depth)
    return error(span, cat("functions nested more than ", limits_.call_depth, " deep"), "does one call itself?");
  auto inner = std::make_shared<Scope>();
  for (std::size_t i = 0; i < values.size(); ++i) inner->set(function.parameters[i], values[i]);
  ++functions_;
  auto where = [&](const Diagnostics&) { return cat("in `", function.name, "` of ", home.source->name, ": "); };
  std::optional<RuleValue> value =
      in_module(home, span, /*always=*/false, where, [&] { return eval(function.body, inner); });
  --functions_;
  return value;
}

std::optional<RuleValue> Evaluator::call_step(const Module& home, const Step& step,
                                              const std::vector<RuleValue>& values, Span span) {
  if (step.parameters.size() != values.size()) {
    return error(span, cat(step.name, " takes ", step.parameters.size(), " arguments, found ", values.size()));
  }
  if (functions_ > 0) return error(span, step_in_function(step.name), step_in_function_note);
  if (depth_ >= limits_.call_depth)
    return error(span, cat("functions nested more than ", limits_.call_depth, " deep"), "does one call itself?");
  auto inner = std::make_shared<Scope>();
  for (std::size_t i = 0; i < values.size(); ++i) inner->set(step.parameters[i], values[i]);
  auto where = [&](const Diagnostics& inside) { return place_in_step(step, inside); };
  return in_module(home, span, /*always=*/true, where, [&]() -> std::optional<RuleValue> {
    Flow flow = run(step.body, inner);
    if (flow == Flow::Skip || flow == Flow::Drop) ended_ = flow;
    if (flow != Flow::Next) return std::nullopt;
    return step.result ? eval(step.result, inner) : RuleValue::none();
  });
}

std::optional<RuleValue> Evaluator::call_list_function(const ListFunction& function,
                                                       const std::vector<RuleValue>& values, Span span) {
  i64 parts = 0;
  for (const RuleValue& value : values) parts += value.parts;
  if (!charge(parts, span)) return std::nullopt;
  auto apply = [&](const RuleValue& f, const RuleValue& x) { return call_lambda(f, {x}, span); };
  FunctionResult result = function.call(arena(), values, apply);
  if (result.error == function_failed) return std::nullopt;
  if (!result.error.empty()) return error(span, cat(function.name, ": ", result.error));
  return result.value;
}

std::optional<RuleValue> Evaluator::call_analysis(const AnalysisFunction& function,
                                                  const std::vector<RuleValue>& values, Span span) {
  if (static_cast<int>(values.size()) != function.arity) {
    return error(
        span, cat(function.name, function.signature, " takes ", function.arity, " arguments, found ", values.size()));
  }
  if (std::string_view(function.name) == "mark" && values[1].tag == Tag::Text &&
      !find_mark(values[1].text, declared_, module_))
    return error(span, unknown_mark(values[1].text, declared_), near_mark(values[1].text, declared_, module_));
  if (std::optional<RuleValue> drawn = open_mark(function, values)) return drawn;
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

namespace {

// What was given to an instruction: open values stay in their places of lists and dictionaries.
RuleValue value_of(const Arg& arg) {
  if (arg.tag == Arg::Tag::Int) return RuleValue::of(arg.integer);
  if (arg.tag == Arg::Tag::Text) return RuleValue::of(std::string(arg.text));
  if (arg.tag == Arg::Tag::Number) return RuleValue::of_number(arg.number);
  if (arg.tag != Arg::Tag::List && arg.tag != Arg::Tag::Dictionary) return RuleValue::of_open(arg);
  std::vector<RuleValue> items;
  std::vector<std::string> keys;
  for (const Arg& item : arg.items) {
    if (item.tag == Arg::Tag::Entry) keys.emplace_back(item.text);
    items.push_back(value_of(item.tag == Arg::Tag::Entry ? item.items[0] : item));
  }
  return arg.tag == Arg::Tag::List ? RuleValue::of(std::move(items)) : RuleValue::of(std::move(keys), std::move(items));
}

}  // namespace

std::optional<RuleValue> Evaluator::open_mark(const AnalysisFunction& function, const std::vector<RuleValue>& values) {
  bool is_mark = std::string_view(function.name) == "mark" && values[1].tag == Tag::Text;
  if (!is_mark || !sink_.records() || use_.rule->is_post) return std::nullopt;
  const std::vector<Instruction>& instructions = sink_.schedule().trace().instructions();
  for (std::size_t i = instructions.size(); i-- > 0;) {
    const Instruction& set = instructions[i];
    bool is_set = set.kind->meaning.mark == Meaning::Mark::Set && set.arguments[1].text == values[1].text;
    if (!is_set || !is_open(set.arguments[2]) || set.arguments[0].tag != Arg::Tag::Value) continue;
    const Value& on = sink_.state().values()[set.arguments[0].integer];
    bool is_loop = on.tag == Value::Tag::Loop && values[0].tag == Tag::Loop,
         is_block = on.tag == Value::Tag::Block && values[0].tag == Tag::Block;
    if ((is_loop || is_block) && on.payload == values[0].integer) return value_of(set.arguments[2]);
  }
  return std::nullopt;
}

}  // namespace tw::rules
