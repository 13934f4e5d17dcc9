#include "graph/rewrite_match.h"

#include <algorithm>
#include <cmath>

#include "dsl/base/text.h"
#include "graph/node_form.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

// Elements of a constant that are compared; one with more is no number.
constexpr i64 kMostAlike = 4096;
// Comparisons of an expression of a pattern with a value, for one root.
constexpr i64 kMostSteps = 20'000;

bool is_commutative(const std::string& op) {
  return op == "add" || op == "multiply" || op == "minimum" || op == "maximum" || op == "equal";
}

// A shape with dimensions of extent 1 at these places.
Ints with_ones(Ints shape, Ints places) {
  std::ranges::sort(places);
  for (i64 place : places) {
    if (place <= std::ssize(shape)) shape.insert(shape.begin() + place, 1);
  }
  return shape;
}
Ints with_leading_ones(Ints shape, std::size_t rank) {
  if (shape.size() < rank) shape.insert(shape.begin(), rank - shape.size(), 1);
  return shape;
}

instantiation::Meaning list_meaning(const Ints& list) {
  std::vector<instantiation::Meaning> items(list.begin(), list.end());
  return instantiation::list_of(std::move(items));
}

bool is_known_integer(double number) { return number == std::floor(number) && std::abs(number) <= kMostExact; }

// Shapes by the names of their values, lists, and numbers that are integers.
instantiation::Names names_of(const Match& match, const std::function<const Ints&(std::string_view)>& shape_of) {
  instantiation::Names names;
  for (const auto& [name, list] : match.lists) names.add(name, list_meaning(list));
  for (const auto& [name, value] : match.values) names.add(name, list_meaning(shape_of(name)));
  for (const auto& [name, number] : match.numbers) {
    if (is_known_integer(number)) names.add(name, static_cast<i64>(number));
  }
  return names;
}

}  // namespace

std::optional<OperatorCall> operator_call(const ast::Expr* e) {
  if (const ast::Binary* binary = ast::as<ast::Binary>(e)) {
    const char* op = binary->op == BinaryOp::Add   ? "add"
                     : binary->op == BinaryOp::Sub ? "subtract"
                     : binary->op == BinaryOp::Mul ? "multiply"
                     : binary->op == BinaryOp::Div ? "divide"
                                                   : nullptr;
    if (!op) return std::nullopt;
    return OperatorCall{op, {binary->a, binary->b}, {}};
  }
  const ast::Call* call = ast::as<ast::Call>(e);
  const ast::Name* name = call ? ast::as<ast::Name>(call->callee) : nullptr;
  if (!name) return std::nullopt;
  OperatorCall out{std::string(name->name), {}, {}};
  for (const ast::Argument& argument : call->arguments) {
    if (argument.name.empty())
      out.operands.push_back(argument.value);
    else
      out.attributes.push_back(argument);
  }
  return out;
}

Matcher::Matcher(const Graph& graph) : graph_(graph), makers_(makers_of(graph)) {}

std::optional<Match> Matcher::match(const Rewrite& rewrite, ValueId root) const {
  State state;
  steps_left_ = kMostSteps;
  if (!match(rewrite, rewrite.pattern, root, false, state)) return std::nullopt;
  return Match(std::move(state));
}

bool Matcher::match(const Rewrite& rewrite, const ast::Expr* pattern, ValueId value, bool may_spread,
                    State& state) const {
  if (--steps_left_ < 0) return false;
  if (const ast::Name* name = ast::as<ast::Name>(pattern))
    return match_name(rewrite, name->name, value, may_spread, state);
  if (const ast::Int* number = ast::as<ast::Int>(pattern))
    return number_of(value) == static_cast<double>(number->value);
  if (const ast::Float* number = ast::as<ast::Float>(pattern)) {
    // A constant of the file is rounded to its type.
    std::optional<double> found = number_of(value);
    return found && std::abs(*found - number->value) <= 1e-6 * std::abs(number->value);
  }
  std::optional<OperatorCall> call = operator_call(pattern);
  return call && match_operator(rewrite, *call, value, may_spread, state);
}

bool Matcher::match_name(const Rewrite& rewrite, std::string_view name, ValueId value, bool may_spread,
                         State& state) const {
  const Rewrite::Parameter* parameter = rewrite.find(name);
  if (parameter && parameter->kind == Rewrite::Kind::Number) {
    std::optional<double> number = number_of(value);
    return number && state.numbers.emplace(name, *number).first->second == *number;
  }
  auto [at, is_new] = state.values.emplace(name, value);
  if (is_new && state.depth > 0) state.spread.emplace(name);
  if (!is_new) return at->second == value;
  if (parameter) return true;
  auto part = std::ranges::find(rewrite.parts, name, &std::pair<std::string, const ast::Expr*>::first);
  return match(rewrite, part->second, value, may_spread, state);
}

bool Matcher::match_operator(const Rewrite& rewrite, const OperatorCall& call, ValueId value, bool may_spread,
                             State& state) const {
  ValueId inner = value;
  if (may_spread && call.op != "broadcast" && call.op != "reshape") inner = without_broadcast(value);
  const Node* node = makers_[inner];
  if (!node || node->op != call.op || node->outputs.size() != 1 || node->inputs.size() != call.operands.size())
    return false;
  if (!match_attributes(call, *node, state)) return false;
  State before = state;
  std::size_t depth = state.depth;
  state.depth += graph_.values[inner].type.shape != graph_.values[value].type.shape;
  if (!match_operands(rewrite, call, *node, node->inputs, state)) {
    if (!is_commutative(call.op)) return false;
    state = std::move(before);
    state.depth += graph_.values[inner].type.shape != graph_.values[value].type.shape;
    if (!match_operands(rewrite, call, *node, {node->inputs[1], node->inputs[0]}, state)) return false;
  }
  state.depth = depth;
  return note_missing(*node, state) && bring_back(inner, value, state);
}

// Operands of an element-wise operator lack the same dimensions, or are numbers; those of others lack none.
bool Matcher::note_missing(const Node& node, State& state) const {
  Ints missing;
  auto lacks_none = [&](ValueId input) { return state.missing.count(input) == 0 || state.missing[input].empty(); };
  if (!is_elementwise(node) && !std::ranges::all_of(node.inputs, lacks_none)) return false;
  if (node.op.starts_with("reduce_")) {
    missing = *integers(node.arguments, "axes");
  } else {
    bool has_whole = false;
    for (ValueId input : node.inputs) {
      auto own = state.missing.find(input);
      bool lacks_some = own != state.missing.end() && !own->second.empty();
      if (lacks_some && !missing.empty() && missing != own->second) return false;
      if (lacks_some) missing = own->second;
      has_whole |= !lacks_some && !number_of(input);
    }
    if (has_whole && !missing.empty()) return false;
  }
  state.missing[node.outputs[0]] = std::move(missing);
  return true;
}

// Between a value and what makes it there are a reshape and a broadcast at most. The reshape brings dimensions back as
// extents of 1 where a reduction took them, or adds some in front; without it those that are missing must be in front,
// where a broadcast adds them.
bool Matcher::bring_back(ValueId inner, ValueId value, State& state) const {
  if (inner == value) return true;
  const Node* outer = makers_[value];
  const Ints& small = graph_.values[inner].type.shape;
  const Ints& large = graph_.values[outer->op == "broadcast" ? outer->inputs[0] : value].type.shape;
  Ints kept = with_ones(small, state.missing[inner]);
  std::size_t rank = std::max(kept.size(), large.size());
  state.missing[value] = {};
  return with_leading_ones(kept, rank) == with_leading_ones(large, rank);
}

// In the order of the pattern, so that a name gets its value where the pattern says it first, whatever the order of
// `inputs`, those of the node.
bool Matcher::match_operands(const Rewrite& rewrite, const OperatorCall& call, const Node& node,
                             const std::vector<ValueId>& inputs, State& state) const {
  bool may_spread = is_elementwise(node);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!match(rewrite, call.operands[i], inputs[i], may_spread, state)) return false;
  }
  return true;
}

// Every argument of the node is one that the pattern speaks of.
bool Matcher::match_attributes(const OperatorCall& call, const Node& node, State& state) const {
  if (node.arguments.size() != call.attributes.size()) return false;
  for (const ast::Argument& wanted : call.attributes) {
    auto own = std::ranges::find(node.arguments, wanted.name, &WorkloadArgument::name);
    const Ints* list = own == node.arguments.end() ? nullptr : std::get_if<Ints>(&own->value);
    const ast::Name* name = ast::as<ast::Name>(wanted.value);
    if (!list || !name || state.lists.emplace(name->name, *list).first->second != *list) return false;
  }
  return true;
}

bool Matcher::is_elementwise(const Node& node) const {
  auto [known, is_new] = elementwise_.try_emplace(&node, false);
  if (is_new) known->second = form_of(graph_, node).is_elementwise;
  return known->second;
}

std::optional<double> Matcher::number_of(ValueId value) const {
  value = without_broadcast(value);
  const HostArray* data = graph_.values[value].data.get();
  if (!data || data->elements() == 0 || data->elements() > kMostAlike) return std::nullopt;
  double first = data->get(0);
  for (i64 i = 1; i < data->elements(); ++i) {
    if (data->get(i) != first) return std::nullopt;
  }
  return first;
}

ValueId Matcher::without_broadcast(ValueId value) const {
  const Node* maker = makers_[value];
  if (maker && maker->op == "broadcast") maker = makers_[value = maker->inputs[0]];
  if (maker && maker->op == "reshape") value = maker->inputs[0];
  return value;
}

bool holds(const RewriteModule& module, const Rewrite& rewrite, const Graph& graph, const Match& match) {
  if (!rewrite.condition) return true;
  auto shape_of = [&](std::string_view name) -> const Ints& {
    return graph.values[match.values.find(name)->second].type.shape;
  };
  Diagnostics diagnostics(*module.source);
  instantiation::Errors errors(diagnostics);
  std::optional<i64> is_true = evaluate_integer(rewrite.condition, names_of(match, shape_of), errors);
  return is_true && *is_true != 0;
}

std::optional<ValueId> Replacement::build(const ast::Expr* e, const std::string& name) {
  if (const ast::Int* literal = ast::as<ast::Int>(e)) return number(static_cast<double>(literal->value), e->span, name);
  if (const ast::Float* literal = ast::as<ast::Float>(e)) return number(literal->value, e->span, name);
  if (const ast::Name* named = ast::as<ast::Name>(e)) {
    const Definition::Parameter* parameter = definition_.find(named->name);
    if (parameter && parameter->kind == Definition::Kind::Number)
      return number(match_.numbers.at(std::string(named->name)), e->span, name);
    if (parameter || match_.values.count(named->name) > 0) return value_of_(named->name);
    return part(named->name, name);
  }
  if (const ast::If* choice = ast::as<ast::If>(e)) {
    std::optional<bool> chosen = is_true(choice->condition);
    return chosen ? build(*chosen ? choice->then : choice->otherwise, name) : std::nullopt;
  }
  return call(e, name);
}

std::optional<ValueId> Replacement::part(std::string_view part, const std::string& name) {
  if (auto known = parts_.find(part); known != parts_.end()) return known->second;
  auto own = std::ranges::find(definition_.parts, part, &std::pair<std::string, const ast::Expr*>::first);
  std::optional<ValueId> made = build(own->second, name);
  if (made) parts_.emplace(part, *made);
  return made;
}

std::optional<bool> Replacement::is_true(const ast::Expr* condition) {
  if (const ast::Test* test = ast::as<ast::Test>(condition)) {
    const ast::Name* name = ast::as<ast::Name>(test->value);
    return name && match_.values.count(name->name) > 0;
  }
  const ast::Unary* unary = ast::as<ast::Unary>(condition);
  if (unary && unary->op == UnaryOp::Not) {
    std::optional<bool> value = is_true(unary->value);
    return value ? std::optional(!*value) : std::nullopt;
  }
  const ast::Binary* binary = ast::as<ast::Binary>(condition);
  if (binary && (binary->op == BinaryOp::And || binary->op == BinaryOp::Or)) {
    std::optional<bool> first = is_true(binary->a);
    bool decides = first && *first == (binary->op == BinaryOp::Or);
    return !first || decides ? first : is_true(binary->b);
  }
  Diagnostics diagnostics(*module_.source);
  instantiation::Errors errors(diagnostics);
  std::optional<i64> value = evaluate_integer(condition, names(), errors);
  if (!value) return fail(diagnostics);
  return *value != 0;
}

// Conditions know integers alone: says so where a number has a fraction.
std::nullopt_t Replacement::fail(const Diagnostics& diagnostics) {
  const Diagnostic& first = diagnostics.all()[0];
  std::string text = module_.source->text.substr(first.span.begin, first.span.end - first.span.begin);
  auto number = match_.numbers.find(text);
  bool is_unknown = number != match_.numbers.end() && !is_known_integer(number->second);
  return fail(first.span,
              is_unknown ? cat("`", text, "` is ", number->second, "; only integers are known here") : first.message);
}

std::nullopt_t Replacement::fail(Span span, const std::string& why) {
  Position at = position_of(*module_.source, span.begin);
  error_ = cat(module_.source->name, ":", at.line, ":", at.column, ": ", why);
  return std::nullopt;
}

std::optional<ValueId> Replacement::call(const ast::Expr* e, const std::string& name) {
  const OperatorCall call = *operator_call(e);
  std::vector<ValueId> operands;
  for (const ast::Expr* operand : call.operands) {
    std::optional<ValueId> made = build(operand, name);
    if (!made) return std::nullopt;
    operands.push_back(*made);
  }
  std::optional<WorkloadArguments> arguments = attributes(call);
  if (!arguments || !are_free(call, operands)) return std::nullopt;
  bool has_spread = std::ranges::any_of(call.operands, [&](const ast::Expr* operand) { return holds_spread(operand); });
  if (has_spread && !is_elementwise(call, operands, *arguments)) return std::nullopt;
  std::string error, ignored;
  auto made = builder_.add(call.op, *arguments, operands, name, error);
  // Element-wise operators want operands of one shape. To others another shape is another meaning.
  if (!made && broadcast(operands, name) && is_elementwise(call, operands, *arguments))
    made = builder_.add(call.op, *arguments, operands, name, ignored);
  if (!made) return fail(e->span, error);
  if (made->size() != 1) return fail(e->span, cat("`", call.op, "` has several results"));
  return call.op.starts_with("reduce_") ? kept(operands[0], *integers(*arguments, "axes"), (*made)[0], name)
                                        : (*made)[0];
}

// Passes infer shapes and types from operands, so they may not be given.
bool Replacement::are_free(const OperatorCall& call, const std::vector<ValueId>& operands) {
  std::vector<OperandType> types;
  for (ValueId operand : operands) types.push_back(builder_.type(operand));
  const WorkloadArguments inferred = with_inferred(operators(), call.op, {}, types);
  for (const ast::Argument& argument : call.attributes) {
    if (std::ranges::count(inferred, argument.name, &WorkloadArgument::name) == 0) continue;
    fail(argument.value->span, cat("`", argument.name, "` follows from the operands and is no argument"));
    return false;
  }
  return true;
}

// Does it depend on a value that is smaller than the pattern's? Only element by element the two are the same.
bool Replacement::holds_spread(const ast::Expr* e) {
  if (match_.spread.empty()) return false;
  if (const ast::Name* name = ast::as<ast::Name>(e)) {
    if (match_.spread.count(name->name) > 0) return true;
    auto part = std::ranges::find(definition_.parts, name->name, &std::pair<std::string, const ast::Expr*>::first);
    if (part == definition_.parts.end()) return false;
    // A part is asked for as often as it is written, and so are those that it is made of.
    auto [known, is_new] = holds_spread_.try_emplace(part->first, false);
    if (is_new) known->second = holds_spread(part->second);
    return known->second;
  }
  std::optional<OperatorCall> call = operator_call(e);
  return call && std::ranges::any_of(call->operands, [&](const ast::Expr* operand) { return holds_spread(operand); });
}

bool Replacement::is_elementwise(const OperatorCall& call, const std::vector<ValueId>& operands,
                                 const WorkloadArguments& arguments) const {
  std::vector<i64> shape;  // of all operands alike: what is asked is how the operator reads them
  for (ValueId operand : operands) {
    if (builder_.type(operand).shape.size() > shape.size()) shape = builder_.type(operand).shape;
  }
  for (bool keeps_scalars : {true, false}) {  // some operators take nothing else, others no scalars
    GraphBuilder alone("alone");
    std::vector<ValueId> inputs;
    for (ValueId operand : operands) {
      const OperandType& own = builder_.type(operand);
      inputs.push_back(alone.input("x", {own.dtype, keeps_scalars && own.shape.empty() ? own.shape : shape}));
    }
    std::string error;
    if (!alone.add(call.op, arguments, inputs, "y", error)) continue;
    Graph graph = alone.finish();
    if (graph.nodes.empty()) return false;  // it reads nothing, so it became a constant
    return form_of(graph, graph.nodes[0]).is_elementwise;
  }
  return false;
}

// A reduction whose dimensions stay, with extent 1.
std::optional<ValueId> Replacement::kept(ValueId operand, const Ints& axes, ValueId reduced, const std::string& name) {
  Ints shape = builder_.type(operand).shape;
  for (i64 axis : axes) shape[static_cast<std::size_t>(axis)] = 1;
  std::string error;
  auto made = builder_.add("reshape", {{"R", shape}}, {reduced}, name, error);
  return made ? std::optional((*made)[0]) : std::nullopt;
}

instantiation::Names Replacement::names() const {
  auto shape_of = [&](std::string_view name) -> const Ints& { return builder_.type(value_of_(name)).shape; };
  instantiation::Names names = names_of(match_, shape_of);
  for (const auto& [name, value] : parts_) names.add(name, list_meaning(builder_.type(value).shape));
  return names;
}

std::optional<WorkloadArguments> Replacement::attributes(const OperatorCall& call) {
  Diagnostics diagnostics(*module_.source);
  instantiation::Errors errors(diagnostics);
  instantiation::Names known = names();
  WorkloadArguments out;
  for (const ast::Argument& argument : call.attributes) {
    const ast::Name* word = ast::as<ast::Name>(argument.value);
    if (std::optional<DType> type = word && !known.find(word->name) ? parse_dtype(word->name) : std::nullopt) {
      out.push_back({std::string(argument.name), *type});
      continue;
    }
    std::optional<instantiation::Meaning> value = evaluate_constant(argument.value, known, errors);
    if (!value) return fail(diagnostics);
    if (const std::vector<instantiation::Meaning>* items = items_of(*value)) {
      Ints list;
      for (const instantiation::Meaning& item : *items) {
        std::optional<i64> number = number_of(item);
        if (!number) return fail(argument.value->span, "expected a list of integers");
        list.push_back(*number);
      }
      out.push_back({std::string(argument.name), list});
    } else {
      out.push_back({std::string(argument.name), number_of(*value).value_or(0)});
    }
  }
  return out;
}

std::optional<ValueId> Replacement::number(double value, Span span, const std::string& name) {
  HostArray array = HostArray::zeros(dtype_, {});
  bool may_fit = is_float(dtype_) || is_known_integer(value);
  if (may_fit) array.set(0, value);
  if (!may_fit || (!is_float(dtype_) && array.get(0) != value))
    return fail(span, cat(value, " is no number of type ", name_of(dtype_)));
  return builder_.constant(name, std::move(array));
}

bool Replacement::broadcast(std::vector<ValueId>& operands, const std::string& name) {
  Ints widest;
  for (ValueId operand : operands) {
    const Ints& shape = builder_.type(operand).shape;
    if (shape.size() > widest.size()) widest.insert(widest.begin(), shape.size() - widest.size(), 1);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      i64& extent = widest[widest.size() - shape.size() + d];
      extent = std::max(extent, shape[d]);
    }
  }
  for (ValueId& operand : operands) {
    if (builder_.type(operand).shape == widest) continue;
    std::string error;
    auto made = builder_.add("broadcast", {{"R", widest}}, {operand}, name, error);
    if (!made) return false;
    operand = (*made)[0];
  }
  return true;
}

}  // namespace tw::graph
