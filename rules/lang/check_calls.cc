#include <algorithm>
#include <utility>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "rules/lang/type_checker.h"

namespace tw::rules {

std::string near_function(std::string_view name, const Declared& declared, const Module* module) {
  std::vector<std::string> names = {"loops"};
  for (const InstructionKind* kind : instruction_kinds()) names.emplace_back(kind->name);
  for (const AnalysisFunction& function : analysis_functions()) names.emplace_back(function.name);
  for (const ListFunction& function : list_functions()) names.emplace_back(function.name);
  auto add = [&](const auto& all) {
    for (const auto& [home, what] : all) {
      if (what->is_exported || home.get() == module) names.emplace_back(what->name);
    }
  };
  add(declared.functions);
  add(declared.steps);
  std::string near = closest(name, names);
  return near.empty() ? "" : cat("did you mean `", near, "`?");
}

namespace {

bool is_built_in(const Module& module) {
  return std::any_of(embedded_texts().begin(), embedded_texts().end(),
                     [&](const EmbeddedText& text) { return text.path == module.source->name; });
}

}  // namespace

std::optional<Unexported> unexported_function(std::string_view name, const Declared& declared) {
  auto says = [&](const auto& other, std::string_view word) {
    std::string note = is_built_in(*other.home)
                           ? cat("`tracewright language ", name, "` prints it: copy it")
                           : cat("write `export ", word == "step" ? word : "fn", " ", name, "` there");
    return Unexported{cat("`", name, "` is a ", word, " of ", other.home->source->name, " alone"), std::move(note)};
  };
  if (auto* function = find_unexported(declared.functions, name)) return says(*function, "function");
  if (auto* step = find_unexported(declared.steps, name)) return says(*step, "step");
  return std::nullopt;
}

std::string step_in_function(std::string_view name) {
  return cat("a function or condition cannot run the step `", name, "`");
}

std::string place_in_step(const Step& step, const Diagnostics& inside) {
  std::size_t line = position_of(inside.source(), inside.all()[0].span.begin).line;
  return cat("in step `", step.name, "`, line ", line, " of ", inside.source().name, ": ");
}

bool takes_mark(const InstructionKind& kind) { return kind.meaning.mark != Meaning::Mark::None; }

const Mark* find_mark(std::string_view name, const Declared& declared, const Module* module) {
  const Definition<Mark>* found = find_visible(declared.marks, name, module);
  return found ? found->what : nullptr;
}

std::string unknown_mark(std::string_view name, const Declared& declared) {
  const Definition<Mark>* other = find_unexported(declared.marks, name);
  return other ? cat("`", name, "` is a mark of ", other->home->source->name, " alone")
               : cat("no module declares a mark `", name, "`");
}

std::string near_mark(std::string_view name, const Declared& declared, const Module* module) {
  if (auto* other = find_unexported(declared.marks, name)) {
    return is_built_in(*other->home) ? cat("declare it here, too: `mark ", name, ": ", word_of(other->what->type), "`")
                                     : cat("write `export mark ", name, "` there");
  }
  std::vector<std::string> names;
  for (const auto& [home, mark] : declared.marks) {
    if (mark->is_exported || home.get() == module) names.emplace_back(mark->name);
  }
  std::string near = closest(name, names);
  return near.empty() ? cat("declare it: `mark ", name, ": int \"what it says\"`, or `: text`")
                      : cat("did you mean `", near, "`?");
}

namespace {

bool is_literal(const Type& type) {
  using enum Type::Kind;
  return type.is(Bool) || type.is(Int) || type.is(Number) || type.is(Text) || type.is(List) || type.is(Dictionary);
}

bool is_simple(const Type& type) { return !type.is(Type::Kind::List) && !type.is(Type::Kind::Dictionary); }

// Of values that are not lists or dictionaries.
bool takes(const Type& wanted, const Type& found) {
  using enum Type::Kind;
  bool is_integer = found.is(Int) || found.is(Bool);
  return wanted.is(Any) || wanted.kind == found.kind || (is_integer && (wanted.is(Int) || wanted.is(Number)));
}

std::optional<std::string> inside(std::optional<std::string> wrong) {
  if (wrong && !wrong->ends_with(" in it")) *wrong += " in it";
  return wrong;
}

Type type_of(const RuleValue& value) {
  switch (value.tag) {
    case RuleValue::Tag::Bool:
      return Type::of(Type::Kind::Bool);
    case RuleValue::Tag::Int:
    case RuleValue::Tag::Open:
      return Type::of(Type::Kind::Int);
    case RuleValue::Tag::Text:
      return Type::of(Type::Kind::Text);
    case RuleValue::Tag::Number:
      return Type::of(Type::Kind::Number);
    case RuleValue::Tag::List:
      return Type::of(Type::Kind::List);
    case RuleValue::Tag::Dictionary:
      return Type::of(Type::Kind::Dictionary);
    default:
      return Type::any();
  }
}

}  // namespace

std::string described(const Type& type) { return is_simple(type) ? name_of(type) : cat("`", word_of(type), "`"); }

std::optional<std::string> misfit(const Type& wanted, const Type& found) {
  if (!is_literal(found) || wanted.is(Type::Kind::Any)) return std::nullopt;
  if (is_simple(wanted) || wanted.kind != found.kind)
    return takes(wanted, found) ? std::nullopt : std::optional(name_of(found));
  return inside(misfit(wanted.item(), found.item()));
}

std::optional<std::string> misfit(const Type& wanted, const RuleValue& found) {
  std::optional<std::string> wrong = misfit(wanted, type_of(found));
  if (wrong || !found.has_items()) return wrong;
  for (const RuleValue& item : *found.list) {
    if (std::optional<std::string> within = inside(misfit(wanted.item(), item))) return within;
  }
  return std::nullopt;
}

std::string wrong_mark_value(const Mark& mark, const std::string& found) {
  return cat("the mark `", mark.name, "` is declared as ", described(mark.type), ", found ", found);
}

Type TypeChecker::type_of_call(const ast::Call* n, const TypeScopePtr& scope) {
  auto* callee = ast::as<ast::Name>(n->callee);
  if (auto* member = ast::as<ast::Member>(n->callee); member && ast::to_string(member->value) != "target") {
    std::vector<std::string> words = {ast::to_string(member->value)};
    for (const ast::Argument& argument : n->arguments) words.push_back(ast::to_string(argument.value));
    return error(n->callee->span, "functions are not members of values",
                 cat("write `", member->name, "(", join(words, ", "), ")`")),
           Type::any();
  }
  if (!callee) return error(n->callee->span, "expected the name of a function or an instruction"), Type::any();
  std::vector<Type> values;
  for (const ast::Argument& argument : n->arguments) values.push_back(type_of(argument.value, scope));
  if (const InstructionKind* kind = find_kind(callee->name)) return call_instruction(*kind, n, values);
  for (const ast::Argument& argument : n->arguments) {
    if (!argument.name.empty()) return error(argument.name_span, "only instructions take named arguments"), Type::any();
  }
  return call_function(callee, n, values, scope);
}

Type TypeChecker::call_function(const ast::Name* callee, const ast::Call* n, const std::vector<Type>& values,
                                const TypeScopePtr& scope) {
  if (Type* local = scope->find(callee->name)) {
    if (local->is(Kind::Function)) return call_lambda(*local, values, n->span);
    if (local->is(Kind::Any)) return Type::any();
  }
  if (auto* own = find_visible(declared_.functions, callee->name, module_))
    return call_user(*own->home, *own->what, values, n->span);
  if (auto* own = find_visible(declared_.steps, callee->name, module_))
    return call_step(*own->home, *own->what, values, n->span);
  if (callee->name == "loops") {
    static const AnalysisFunction loops{"loops", "(block) -> [loop]", "", 1, nullptr};
    return call_analysis(loops, n, values);
  }
  if (const ListFunction* function = find_list_function(callee->name)) return call_list_function(*function, n, values);
  if (const AnalysisFunction* function = find_function(callee->name)) return call_analysis(*function, n, values);
  if (std::optional<Unexported> other = unexported_function(callee->name, declared_)) {
    return error(callee->span, other->message, other->note), Type::any();
  }
  error(callee->span, cat("unknown function or instruction `", callee->name, "`"),
        near_function(callee->name, declared_, module_));
  return Type::any();
}

Type TypeChecker::call_user(const Module& home, const UserFunction& function, const std::vector<Type>& values,
                            Span span) {
  if (function.parameters.size() != values.size()) {
    return error(span, cat(function.name, " takes ", function.parameters.size(), " arguments, found ", values.size())),
           Type::any();
  }
  if (depth_ >= 8) return Type::any();
  auto inner = new_scope();
  for (std::size_t i = 0; i < values.size(); ++i) inner->names[std::string(function.parameters[i])] = values[i];
  // What is wrong inside may be in another module's text; the evaluator names it where it runs.
  Diagnostics inside(diagnostics_.source());
  TypeChecker checker(home, declared_, inside);
  checker.depth_ = depth_ + 1;
  checker.functions_ = 1;
  checker.work_left_ = work_left_;
  Type result = checker.type_of(function.body, inner);
  work_left_ = checker.work_left_;
  return inside.has_errors() ? Type::any() : result;
}

Type TypeChecker::call_step(const Module& home, const Step& step, const std::vector<Type>& values, Span span) {
  if (step.parameters.size() != values.size()) {
    return error(span, cat(step.name, " takes ", step.parameters.size(), " arguments, found ", values.size())),
           Type::any();
  }
  if (functions_ > 0) return error(span, step_in_function(step.name), step_in_function_note), Type::any();
  if (std::find(steps_.begin(), steps_.end(), &step) != steps_.end()) {
    return error(span, cat("step `", step.name, "` calls itself"),
                 "steps end: they stand as if written where they are called"),
           Type::any();
  }
  Diagnostics inside(*home.source);
  TypeChecker checker(home, declared_, inside);
  checker.work_left_ = work_left_;
  checker.is_post_ = is_post_;
  checker.steps_ = steps_;
  Type result = checker.result_of(step, values);
  work_left_ = checker.work_left_;
  if (!inside.has_errors()) return result;
  // What is wrong in the step itself has been said there.
  if (!diagnostics_.has_errors())
    error(span, place_in_step(step, inside) + inside.all()[0].message, inside.all()[0].note);
  return Type::any();
}

Type TypeChecker::result_of(const Step& step, const std::vector<Type>& values) {
  steps_.push_back(&step);
  auto scope = new_scope();
  for (std::size_t i = 0; i < step.parameters.size(); ++i) {
    bool is_known = i < values.size() && !values[i].is(Kind::None);  // the step may ask whether it is none
    scope->names[std::string(step.parameters[i])] = is_known ? values[i] : Type::any();
  }
  run(step.body, scope);
  return step.result ? type_of(step.result, scope) : Type::of(Kind::None);
}

Type TypeChecker::call_lambda(const Type& lambda, const std::vector<Type>& values, Span span) {
  if (lambda.lambda->parameters.size() != values.size()) {
    return error(span,
                 cat("the function takes ", lambda.lambda->parameters.size(), " arguments, found ", values.size())),
           Type::any();
  }
  if (depth_ >= 8) return Type::any();
  auto inner = new_scope();
  inner->parent = std::const_pointer_cast<TypeScope>(lambda.scope);
  for (std::size_t i = 0; i < values.size(); ++i)
    inner->names[std::string(lambda.lambda->parameters[i]->name)] = values[i];
  ++depth_, ++functions_;
  const Module* from = std::exchange(module_, lambda.home);
  Type result = type_of(lambda.lambda->body, inner);
  module_ = from;
  --depth_, --functions_;
  return result;
}

Type TypeChecker::call_list_function(const ListFunction& function, const ast::Call* n,
                                     const std::vector<Type>& values) {
  std::string_view name = function.name;
  auto is_list = [&](std::size_t i) { return i < values.size() && values[i].is(Kind::List); };
  bool is_open = std::any_of(values.begin(), values.end(), [](const Type& t) { return t.openness == Openness::Open; });
  if (name == "range") {
    if (is_open) error(n->span, "range: expected one or two fixed integers");
    return Type::list(Type::of(Kind::Int));
  }
  if (name == "len" || name == "contains") return Type::of(name == "len" ? Kind::Int : Kind::Bool);
  if (name == "flat") return Type::list(is_list(0) ? values[0].item().item() : Type::any());
  if (name == "rev") return is_list(0) ? values[0] : Type::any();
  if (name == "enumerate" || name == "zip")
    return Type::list(Type::list(Type::any(), 2), is_list(0) && name == "enumerate" ? values[0].size : -1);
  if (name == "prefix") {
    if (is_list(0) && values.size() == 2 && values[1].is(Kind::Function)) {
      Type holds = call_lambda(values[1], {values[0].item()}, n->span);
      if (holds.openness == Openness::Open)
        error(n->arguments[1].value->span, open_condition_message, open_condition_note);
    }
    return Type::list(is_list(0) ? values[0].item() : Type::any());
  }
  Openness openness = Openness::Fixed;
  for (const Type& value : values)
    openness = combine_openness(openness, value.is(Kind::List) ? value.item().openness : value.openness);
  if (values.size() == 1 && is_list(0) && values[0].size == 0) openness = Openness::Fixed;
  return Type::of(Kind::Int, openness);
}

Type TypeChecker::call_analysis(const AnalysisFunction& function, const ast::Call* n, const std::vector<Type>& values) {
  if (static_cast<int>(values.size()) != function.arity) {
    return error(n->span, cat(function.name, function.signature, " takes ", function.arity, " arguments, found ",
                              values.size())),
           Type::any();
  }
  TypedSignature signature = parse_signature(function.signature);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::vector<Type>& wanted = signature.parameters[i];
    auto fits = [&](const Type& t) { return t.is(Kind::Any) || values[i].is(Kind::Any) || t.kind == values[i].kind; };
    bool is_handle = values[i].is(Kind::Loop) || values[i].is(Kind::Block);
    if (std::any_of(wanted.begin(), wanted.end(), fits) && !(is_handle && values[i].openness == Openness::Open))
      continue;
    std::vector<std::string> names;
    for (const Type& type : wanted) names.push_back(name_of(type));
    return error(n->arguments[i].value->span,
                 cat(function.name, ": expected ", join(names, " or "), ", found ", name_of(values[i]))),
           Type::any();
  }
  Type result = signature.result;
  std::string_view name = function.name;
  if (name == "mark") check_mark(n->arguments[1].value);
  if (name == "extent" && values[0].is(Kind::Loop))
    result.openness = values[0].extent;
  else if (name == "mark" || name == "extent")
    result.openness = Openness::Unknown;
  return result;
}

namespace {

// reorder(k, i, j) for reorder([k, i, j])?
bool is_unbracketed_list(const InstructionKind& kind, const ast::Call* n, const std::vector<Type>& values) {
  std::string_view takes = kind.parameters.empty() ? "" : std::string_view(kind.parameters[0].type);
  if (takes != "Loops" && takes != "Blocks") return false;
  Type::Kind item = takes == "Loops" ? Type::Kind::Loop : Type::Kind::Block;
  auto is_item = [&](const Type& type) { return type.is(item); };
  auto fits = [&](const Type& type) { return type.is(item) || type.is(Type::Kind::Any); };
  auto is_named = [](const ast::Argument& argument) { return !argument.name.empty(); };
  return std::any_of(values.begin(), values.end(), is_item) && std::all_of(values.begin(), values.end(), fits) &&
         std::none_of(n->arguments.begin(), n->arguments.end(), is_named);
}

}  // namespace

Type TypeChecker::call_instruction(const InstructionKind& kind, const ast::Call* n, const std::vector<Type>& values) {
  if (is_post_ && kind.samples) {
    error(n->span, "a postprocessor may not draw: it runs on a program whose decisions have been taken",
          "draw in a rule, and leave a mark with annotate()");
  }
  if (is_unbracketed_list(kind, n, values)) {
    std::vector<std::string> items;
    for (const ast::Argument& argument : n->arguments) items.push_back(ast::to_string(argument.value));
    return error(n->span, cat(kind.name, " takes a list"), cat("write `", kind.name, "([", join(items, ", "), "])`")),
           Type::any();
  }
  std::vector<const Type*> given(kind.parameters.size(), nullptr);
  std::vector<const ast::Expr*> written(kind.parameters.size(), nullptr);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ast::Argument& argument = n->arguments[i];
    std::size_t index = i;
    if (!argument.name.empty()) {
      auto named = [&](const Parameter& parameter) { return parameter.name == argument.name; };
      index = static_cast<std::size_t>(std::find_if(kind.parameters.begin(), kind.parameters.end(), named) -
                                       kind.parameters.begin());
    }
    if (index >= kind.parameters.size()) {
      error(argument.value->span,
            argument.name.empty() ? cat(kind.name, " takes ", kind.parameters.size(), " arguments")
                                  : cat(kind.name, " has no parameter `", argument.name, "`"),
            cat(kind.name, signature_text(kind)));
      return Type::any();
    }
    given[index] = &values[i];
    written[index] = argument.value;
    check_argument(kind, kind.parameters[index], values[i], argument.value->span);
    if (kind.parameters[index].type == "Factors") check_factors(argument.value);
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] || !kind.parameters[i].fallback.empty()) continue;
    error(n->span, cat(kind.name, ": parameter `", kind.parameters[i].name, "` is missing"),
          cat(kind.name, signature_text(kind)));
  }
  if (takes_mark(kind) && written[1]) {
    bool has_value = given.size() > 2 && given[2];
    check_mark(written[1], has_value ? written[2] : nullptr, has_value ? *given[2] : Type::any());
  }
  return result_of(kind, n, given);
}

void TypeChecker::check_factors(const ast::Expr* written) {
  const ast::List* factors = ast::as<ast::List>(written);
  if (!factors) return;
  for (const ast::Expr* factor : factors->items) {
    const ast::Int* number = ast::as<ast::Int>(factor);
    if (number && number->value < 1)
      error(factor->span, "a factor is at least 1", "`_` stands for the factor that the others leave");
  }
}

void TypeChecker::check_mark(const ast::Expr* key, const ast::Expr* value, const Type& type) {
  const ast::Text* name = ast::as<ast::Text>(key);
  if (!name) return;  // the evaluator knows it
  const Definition<Mark>* mark = find_visible(declared_.marks, name->value, module_);
  if (!mark) return error(key->span, unknown_mark(name->value, declared_), near_mark(name->value, declared_, module_));
  std::optional<std::string> wrong = value ? misfit(mark->what->type, type) : std::nullopt;
  if (wrong)
    error(value->span, wrong_mark_value(*mark->what, *wrong), cat("it is declared in ", mark->home->source->name));
}

void TypeChecker::check_argument(const InstructionKind& kind, const Parameter& parameter, const Type& value,
                                 Span span) {
  struct Row {
    std::string_view type;
    std::vector<Kind> kinds;
    const char* expected;
  };
  static const Row rows[] = {{"LoopId", {Kind::Loop}, "a loop"},
                             {"BlockId", {Kind::Block}, "a block"},
                             {"LoopOrBlock", {Kind::Loop, Kind::Block}, "a loop or a block"},
                             {"Location", {Kind::Loop, Kind::Location}, "a loop or a drawn location"},
                             {"i64", {Kind::Int, Kind::Bool}, "an integer"},
                             {"bool", {Kind::Bool, Kind::Int}, "a boolean"},
                             {"Str", {Kind::Text}, "a text"},
                             {"Literal",
                              {Kind::Int, Kind::Bool, Kind::Text, Kind::Number, Kind::List, Kind::Dictionary},
                              "an integer, a number, a text, a list or a dictionary"},
                             {"Loops", {Kind::List}, "a list of loops"},
                             {"Blocks", {Kind::List}, "a list of blocks"},
                             {"Ints", {Kind::List}, "a list of integers"},
                             {"Factors", {Kind::List}, "a list of factors"},
                             {"IndexMap", {Kind::Function, Kind::Map}, "an index map"}};
  if (value.is(Kind::Any)) return;
  for (const Row& row : rows) {
    if (row.type != parameter.type) continue;
    bool fits = std::find(row.kinds.begin(), row.kinds.end(), value.kind) != row.kinds.end();
    fits |= value.is(Kind::None) && !parameter.fallback.empty();
    if (fits) continue;
    type_error(span, cat(row.expected, " for `", parameter.name, "` of ", kind.name), value);
    return;
  }
  bool is_number = value.is(Kind::Int) || value.is(Kind::Bool);
  if (is_number && value.openness == Openness::Open && !may_be_open(kind, parameter)) {
    error(span, open_argument_message(kind, parameter), open_argument_note);
  }
}

Type TypeChecker::result_of(const InstructionKind& kind, const ast::Call* n,
                            const std::vector<const Type*>& arguments) const {
  Openness openness = Openness::Fixed;
  int list_size = -1;
  for (const Type* argument : arguments) {
    if (!argument) continue;
    const Type& value = argument->is(Kind::List) ? argument->item() : *argument;
    if (argument->is(Kind::List) && (list_size = argument->size) == 0) continue;
    openness = combine_openness(
        openness, combine_openness(value.openness, value.is(Kind::Loop) ? value.extent : Openness::Fixed));
  }
  bool is_drawn_handle =
      (kind.meaning.picks && openness == Openness::Open) || kind.meaning.draws == Meaning::Draws::Order;
  Type loop = Type::loop(kind.pure && !kind.samples ? Openness::Unknown : openness);
  if (is_drawn_handle) loop.openness = Openness::Open;
  if (kind.result == "LoopId") return loop;
  if (kind.result == "Loops") return Type::list(loop, list_size);
  if (kind.result == "BlockId") return Type::of(Kind::Block);
  if (kind.result == "Blocks") return Type::list(Type::of(Kind::Block));
  if (kind.result == "i64") return Type::of(Kind::Int, Openness::Open);
  if (kind.result == "Location") return Type::of(Kind::Location, Openness::Open);
  if (kind.result == "Ints") {
    // sample_tile(loop, n): n as it is written.
    const ast::Int* count = nullptr;
    for (std::size_t i = 0; i < n->arguments.size(); ++i) {
      bool is_count = n->arguments[i].name.empty() ? i == 1 : n->arguments[i].name == "n";
      if (is_count) count = ast::as<ast::Int>(n->arguments[i].value);
    }
    return Type::list(Type::of(Kind::Int, Openness::Open), count ? static_cast<int>(count->value) : -1);
  }
  return kind.result == "Unit" ? Type::of(Kind::None) : Type::any();
}

}  // namespace tw::rules
