#include "graph/graph.h"

#include <algorithm>

#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"

namespace tw::graph {
namespace {

// An operator on constants is computed at once if its result has at most kSmall elements, or at most kMostFolded and no
// more than the largest operand. All operators of a graph together take at most the steps that the builder was given:
// after these only what takes few steps is computed, as shapes do.
constexpr i64 kMostFolded = 1 << 16, kSmall = 64, kFewSteps = 1000;

constexpr std::string_view kOperatorsFolder = "graph/operators/";

// The program of one operator on operands of these types; nothing, and why in `error`.
std::optional<OwnedProgram> program_of(const std::string& op, const WorkloadArguments& arguments,
                                       const std::vector<OperandType>& operands, std::string& error) {
  te::Definition definition(op);
  std::vector<te::Tensor> tensors;
  for (const OperandType& operand : operands)
    tensors.push_back(definition.input(cat("X", tensors.size()), operand.dtype, operand.shape));
  Diagnostics diagnostics(*operators().source);
  if (!add_workload(definition, operators(), op, arguments, tensors, true, diagnostics)) {
    error = diagnostics.all().empty() ? cat("`", op, "` cannot be made") : diagnostics.all()[0].message;
    return std::nullopt;
  }
  return definition.finish();
}

// Elements of the buffers that a program fills; each takes at least one step.
i64 filled_elements(const Program& program, std::size_t operands) {
  i64 elements = 0;
  for (std::size_t i = operands; i < program.params.size(); ++i) elements += elements_of(program.params[i].buffer);
  for (const Buffer* local : program.locals) elements += elements_of(local);
  return elements;
}

// The outputs of a program whose first parameters are the operands. Nothing, and why in `error`, which is "" if it
// takes more steps than these.
std::optional<std::vector<HostArray>> computed(const Program& program, const std::vector<const HostArray*>& operands,
                                               i64 most_steps, std::string& error, i64* taken = nullptr) {
  error = "";
  if (filled_elements(program, operands.size()) > most_steps) return std::nullopt;
  std::vector<HostArray> arrays;
  for (std::size_t i = 0; i < program.params.size(); ++i) {
    const Param& param = program.params[i];
    arrays.push_back(i < operands.size() ? *operands[i] : HostArray::like(param.buffer));
  }
  i64 steps = 0;
  error = interpret(program, arrays, {.max_steps = most_steps, .max_bytes = i64{1} << 40, .steps_taken = &steps});
  if (taken) *taken += steps;
  if (!error.empty()) return error = steps > most_steps ? "" : error, std::nullopt;
  arrays.erase(arrays.begin(), arrays.begin() + static_cast<std::ptrdiff_t>(operands.size()));
  return arrays;
}

std::vector<OperandType> types_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<OperandType> types;
  for (ValueId value : values) types.push_back(graph.values[value].type);
  return types;
}

std::string to_string(const OperandType& type) { return cat(name_of(type.dtype), "[", join(type.shape, ", "), "]"); }

}  // namespace

i64 elements_of(const OperandType& type) {
  i64 elements = 1;
  for (i64 extent : type.shape) elements *= extent;
  return elements;
}

std::vector<const Node*> makers_of(const Graph& graph) {
  std::vector<const Node*> makers(graph.values.size());
  for (const Node& node : graph.nodes) {
    for (ValueId output : node.outputs) makers[output] = &node;
  }
  return makers;
}

void refused(const std::string& why) { check_failed("an operator", __FILE__, __LINE__, why.c_str()); }

const std::vector<i64>* integers(const WorkloadArguments& arguments, const std::string& name) {
  auto at = std::ranges::find(arguments, name, &WorkloadArgument::name);
  return at == arguments.end() ? nullptr : std::get_if<std::vector<i64>>(&at->value);
}

i64 integer(const WorkloadArguments& arguments, const std::string& name) {
  auto at = std::ranges::find(arguments, name, &WorkloadArgument::name);
  const i64* value = at == arguments.end() ? nullptr : std::get_if<i64>(&at->value);
  return value ? *value : 0;
}

std::optional<OwnedProgram> program_of(const Graph& graph, const Node& node, std::string& error) {
  return program_of(node.op, node.arguments, types_of(graph, node.inputs), error);
}

std::string operators_text() {
  std::string text;
  for (const EmbeddedText& file : embedded_texts()) {
    if (file.path.starts_with(kOperatorsFolder)) text += file.text;
  }
  return text;
}

const WorkloadModule& operators() {
  static const WorkloadModule module = [] {
    Source source{std::string(kOperatorsFolder), operators_text()};
    Diagnostics diagnostics(source);
    WorkloadModule parsed = parse_workloads(source, diagnostics);
    TW_CHECK(!diagnostics.has_errors(), "graph/operators has errors; graph_test prints them");
    return parsed;
  }();
  return module;
}

ValueId GraphBuilder::value(const std::string& name, OperandType type) {
  std::string wanted = name.empty() ? "v" : name;
  int count = names_[wanted]++;
  while (count > 0 && names_.count(cat(wanted, "_", count))) ++count;
  std::string own = count == 0 ? wanted : cat(wanted, "_", count);
  names_[wanted] = count + 1;  // so that the numbers that are taken are not asked for again
  if (count > 0) names_[own] = 1;
  graph_.values.push_back({own, std::move(type), nullptr});
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId GraphBuilder::input(const std::string& name, OperandType type) {
  graph_.inputs.push_back(value(name, std::move(type)));
  return graph_.inputs.back();
}

void GraphBuilder::output(ValueId value, const std::string& name) {
  graph_.outputs.push_back(value);
  graph_.output_names.push_back(name);
}

ValueId GraphBuilder::constant(const std::string& name, HostArray data) {
  return constant(name, std::make_shared<const HostArray>(std::move(data)));
}

ValueId GraphBuilder::constant(const std::string& name, std::shared_ptr<const HostArray> data) {
  ValueId made = value(name, {data->dtype, data->shape});
  graph_.values[made].data = std::move(data);
  return made;
}

std::optional<std::vector<ValueId>> GraphBuilder::add(const std::string& op, WorkloadArguments arguments,
                                                      const std::vector<ValueId>& inputs, const std::string& name,
                                                      std::string& error) {
  std::optional<OwnedProgram> program = program_of(op, arguments, types_of(graph_, inputs), error);
  if (!program) return std::nullopt;
  std::vector<OperandType> results;
  i64 elements = 0;
  for (const Param& param : program->program.params) {
    if (param.role != Role::Output) continue;
    results.push_back({param.buffer->dtype, {param.buffer->shape.begin(), param.buffer->shape.end()}});
    elements += elements_of(results.back());
  }
  std::vector<const HostArray*> known;
  i64 most = kSmall;
  for (ValueId input : inputs) {
    known.push_back(data(input));
    most = std::max(most, elements_of(type(input)));
  }
  std::vector<ValueId> made;
  bool are_known = std::ranges::none_of(known, [](const HostArray* data) { return data == nullptr; });
  if (are_known && elements <= std::min(most, kMostFolded)) {
    i64 most_steps = std::clamp(most_folding_steps_ - folding_steps_, kFewSteps, most_folding_steps_);
    std::optional<std::vector<HostArray>> folded =
        computed(program->program, known, most_steps, error, &folding_steps_);
    if (!folded && !error.empty()) return std::nullopt;
    for (std::size_t i = 0; folded && i < folded->size(); ++i) made.push_back(constant(name, std::move((*folded)[i])));
    if (folded) return made;
  }
  for (OperandType& type : results) made.push_back(value(name, std::move(type)));
  graph_.nodes.push_back({op, std::move(arguments), inputs, made});
  return made;
}

GraphCopy::GraphCopy(const Graph& from) : from_(from), builder_(from.name), now_(from.values.size()) {
  for (ValueId input : from.inputs) now_[input] = builder_.input(from.values[input].name, from.values[input].type);
}

ValueId GraphCopy::now(ValueId old) {
  const Value& value = from_.values[old];
  if (!now_[old] && value.data) now_[old] = builder_.constant(value.name, value.data);
  TW_CHECK(now_[old], "a pass asks for a value that it has not made");
  return *now_[old];
}

void GraphCopy::copy(const Node& node) {
  std::vector<ValueId> inputs;
  for (ValueId input : node.inputs) inputs.push_back(now(input));
  std::string error;
  auto made = builder_.add(node.op, node.arguments, inputs, from_.values[node.outputs[0]].name, error);
  if (!made) refused(error);
  for (std::size_t i = 0; i < made->size(); ++i) set(node.outputs[i], (*made)[i]);
}

ValueId GraphCopy::add(const std::string& op, WorkloadArguments arguments, const std::vector<ValueId>& inputs,
                       const std::string& name) {
  std::string error;
  auto made = builder_.add(op, std::move(arguments), inputs, name, error);
  if (!made || made->size() != 1) refused(error);
  return (*made)[0];
}

Graph GraphCopy::finish() {
  for (std::size_t i = 0; i < from_.outputs.size(); ++i) builder_.output(now(from_.outputs[i]), from_.output_names[i]);
  return builder_.finish();
}

std::string to_string(const Graph& graph) {
  auto names = [&](const std::vector<ValueId>& values) {
    std::vector<std::string> list;
    for (ValueId value : values) list.push_back(graph.values[value].name);
    return join(list, ", ");
  };
  std::string out = cat("graph ", graph.name, "\n");
  for (ValueId input : graph.inputs)
    out += cat("  input ", graph.values[input].name, ": ", to_string(graph.values[input].type), "\n");
  for (const Value& value : graph.values) {
    if (value.data) out += cat("  const ", value.name, ": ", to_string(value.type), "\n");
  }
  for (const Node& node : graph.nodes) {
    std::vector<std::string> types;
    for (ValueId output : node.outputs) types.push_back(to_string(graph.values[output].type));
    std::string arguments = to_string(WorkloadUse{"", node.arguments});
    out += cat("  ", names(node.outputs), ": ", join(types, ", "), " = ", node.op, "(", names(node.inputs),
               node.arguments.empty() ? "" : "; ", arguments.substr(1), "\n");
  }
  auto equals = [&](std::size_t i) {
    const std::string& own = graph.values[graph.outputs[i]].name;
    return own == graph.output_names[i] ? "" : cat(" = ", own);
  };
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    out += cat("  output ", graph.output_names[i], equals(i), "\n");
  return out;
}

std::optional<std::vector<HostArray>> evaluate(const Graph& graph, const std::vector<HostArray>& inputs,
                                               std::string& error, i64 most_steps) {
  i64 taken = 0;
  std::vector<std::optional<HostArray>> arrays(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) arrays[graph.inputs[i]] = inputs[i];
  auto array_of = [&](ValueId value) {
    return graph.values[value].data ? graph.values[value].data.get() : &*arrays[value];
  };
  for (const Node& node : graph.nodes) {
    std::optional<OwnedProgram> program = program_of(graph, node, error);
    if (!program) return std::nullopt;
    std::vector<const HostArray*> operands;
    for (ValueId input : node.inputs) operands.push_back(array_of(input));
    std::optional<std::vector<HostArray>> results =
        computed(program->program, operands, most_steps - taken, error, &taken);
    if (!results && error.empty()) error = cat("it takes more than ", most_steps, " steps");
    if (!results) return error = cat(graph.values[node.outputs[0]].name, ": ", error), std::nullopt;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) arrays[node.outputs[i]] = std::move((*results)[i]);
  }
  std::vector<HostArray> out;
  for (ValueId output : graph.outputs) out.push_back(*array_of(output));
  return out;
}

}  // namespace tw::graph
