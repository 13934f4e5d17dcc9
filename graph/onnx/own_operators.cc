// Operators that somebody wrote as text: what a node gives them.
#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"
#include "graph/own_operator.h"

namespace tw::graph::onnx {
namespace {

using Parameter = Definition::Parameter;

void read_input(const Parameter& parameter, std::size_t index, NodeImport& node, Match& given) {
  if (!node.has_input(index) && parameter.is_optional) return;
  if (!node.has_input(index)) return node.fail(cat("its input `", parameter.name, "` is missing"));
  ValueId value = node.input(index);
  if (node.is_empty(value)) return node.fail(kNoElements);
  given.values.emplace(parameter.name, value);
}

void read_number(const Parameter& parameter, NodeImport& node, Match& given) {
  const proto::AttributeProto* found = node.find(parameter.name.c_str());
  bool is_real = found && found->type() == proto::AttributeProto::FLOAT;
  if (found && !is_real && found->type() != proto::AttributeProto::INT)
    return node.fail(cat("its attribute `", parameter.name, "` is no number"));
  if (found && !is_real && (found->i() > kMostExact || found->i() < -kMostExact))
    return node.fail(cat("its attribute `", parameter.name, "` is beyond 2^53"));
  given.numbers[parameter.name] = is_real ? found->f() : found ? static_cast<double>(found->i()) : parameter.number;
}

void read_list(const Parameter& parameter, NodeImport& node, Match& given) {
  const proto::AttributeProto* found = node.find(parameter.name.c_str());
  if (found && found->type() != proto::AttributeProto::INTS)
    return node.fail(cat("its attribute `", parameter.name, "` is no list of integers"));
  given.lists[parameter.name] = node.integers(parameter.name.c_str(), parameter.list);
}

// The inputs of a node belong to the values in turn.
Match read(const OnnxOperator& op, NodeImport& node) {
  Match given;
  std::size_t values = 0;
  for (const Parameter& parameter : op.parameters) {
    if (parameter.kind == Definition::Kind::Value)
      read_input(parameter, values++, node, given);
    else if (!node.has(parameter.name.c_str()) && !parameter.is_optional)
      node.fail(cat("its attribute `", parameter.name, "` is missing"));
    else if (parameter.kind == Definition::Kind::Number)
      read_number(parameter, node, given);
    else
      read_list(parameter, node, given);
  }
  for (std::size_t i = values; i < node.inputs(); ++i) {
    if (node.has_input(i)) node.fail(cat("it has more inputs than the ", values, " that its text knows"));
  }
  for (std::size_t i = op.results.size(); i < node.outputs(); ++i) {
    if (node.has_output(i)) node.fail(cat("it has more outputs than the ", op.results.size(), " that its text makes"));
  }
  std::string unknown = node.ignored_attribute();
  if (!unknown.empty()) node.fail(cat("its attribute `", unknown, "` is not known"));
  return given;
}

void convert(const OwnOperator& own, NodeImport& node) {
  Match given = read(*own.text, node);
  if (node.has_failed()) return;
  std::string error;
  std::optional<std::vector<ValueId>> made = build_operator(own, given, node.builder(), node.result_name(), error);
  if (!made) return node.fail(error);
  for (std::size_t i = 0; i < made->size(); ++i) node.result(i, (*made)[i]);
}

}  // namespace

Converter own_converter(const std::vector<const RewriteModule*>& modules, const std::string& domain,
                        const std::string& name) {
  OwnOperator own = find_operator(modules, domain, name);
  if (!own.text) return {};
  return [own](NodeImport& node) { convert(own, node); };
}

}  // namespace tw::graph::onnx
