#include "graph/own_operator.h"

#include "dsl/base/text.h"

namespace tw::graph {
namespace {

// The type of the numbers in the text: that of the first input of floats, else that of the first input.
DType type_of_numbers(const OnnxOperator& op, const Match& given, const GraphBuilder& builder) {
  std::optional<DType> first;
  for (const Definition::Parameter& parameter : op.parameters) {
    auto value = given.values.find(parameter.name);
    if (value == given.values.end()) continue;
    DType type = builder.type(value->second).dtype;
    if (is_float(type)) return type;
    if (!first) first = type;
  }
  return first.value_or(DType::F32);
}

bool is_met(const OnnxOperator::Requirement& required, Replacement& text) {
  std::optional<bool> holds = text.is_true(required.condition);
  if (!holds) return false;
  std::string why = required.message;
  if (why.empty()) why = cat("`", ast::to_string(required.condition), "` does not hold");
  if (!*holds) text.fail(required.condition->span, why);
  return *holds;
}

// Parts and requirements as they are written: a requirement knows the parts that stand before it.
bool has_parts(const OnnxOperator& op, Replacement& text, const std::string& name) {
  auto required = op.requirements.begin();
  for (std::size_t i = 0; i <= op.parts.size(); ++i) {
    for (; required != op.requirements.end() && required->parts == i; ++required) {
      if (!is_met(*required, text)) return false;
    }
    if (i < op.parts.size() && !text.part(op.parts[i].first, name)) return false;
  }
  return true;
}

std::optional<std::vector<ValueId>> built(const OnnxOperator& op, Replacement& text, const std::string& name) {
  if (!has_parts(op, text, name)) return std::nullopt;
  std::vector<ValueId> results;
  for (const ast::Expr* result : op.results) {
    std::optional<ValueId> made = text.build(result, name);
    if (!made) return std::nullopt;
    results.push_back(*made);
  }
  return results;
}

}  // namespace

OwnOperator find_operator(const std::vector<const RewriteModule*>& modules, const std::string& domain,
                          const std::string& name) {
  const std::string wanted = domain_or_onnx(domain);
  for (const RewriteModule* module : modules) {
    for (const OnnxOperator& op : module->operators) {
      if (op.name == name && op.domain == wanted) return {module, &op};
    }
  }
  return {};
}

std::optional<std::vector<ValueId>> build_operator(const OwnOperator& own, const Match& given, GraphBuilder& builder,
                                                   const std::string& name, std::string& error) {
  auto value_of = [&](std::string_view value) { return given.values.find(value)->second; };
  Replacement text(*own.module, *own.text, given, builder, value_of, type_of_numbers(*own.text, given, builder));
  std::optional<std::vector<ValueId>> results = built(*own.text, text, name);
  if (!results) error = text.error();
  return results;
}

}  // namespace tw::graph
