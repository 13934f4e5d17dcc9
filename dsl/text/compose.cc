#include "dsl/text/compose.h"

#include <algorithm>

namespace tw {
namespace {

class Inference {
 public:
  Inference(const ast::Workload& workload, WorkloadArguments& known) : workload_(workload), known_(known) {}

  void match(const ast::Declaration& declared, const OperandType& operand) {
    if (const ast::Parameter* type = unknown(declared.type, ParameterKind::Type)) bind(*type, operand.dtype);
    // From both sides up to a list whose length is not known.
    std::size_t first = 0, last = declared.shape.size(), front = 0, back = operand.shape.size();
    for (; first < last; ++first) {
      std::optional<std::size_t> length = length_of(declared.shape[first]);
      if (!length || front + *length > back) break;
      if (*length == 1) match_extent(declared.shape[first], operand.shape[front]);
      front += *length;
    }
    for (; last > first; --last) {
      std::optional<std::size_t> length = length_of(declared.shape[last - 1]);
      if (!length || front + *length > back) break;
      back -= *length;
      if (*length == 1) match_extent(declared.shape[last - 1], operand.shape[back]);
    }
    if (last != first + 1) return;
    if (const ast::Parameter* list = unknown(declared.shape[first], ParameterKind::Integers))
      bind(*list, std::vector<i64>(operand.shape.begin() + static_cast<std::ptrdiff_t>(front),
                                   operand.shape.begin() + static_cast<std::ptrdiff_t>(back)));
  }

 private:
  const ast::Parameter* parameter(const ast::Expr* e) const {
    auto* name = ast::as<ast::Name>(e);
    auto at = std::ranges::find_if(workload_.parameters,
                                   [&](const ast::Parameter& p) { return name && p.name.name == name->name; });
    return at == workload_.parameters.end() ? nullptr : &*at;
  }
  const WorkloadArgument* value_of(const ast::Parameter& parameter) const {
    auto at = std::ranges::find_if(known_, [&](const WorkloadArgument& a) { return a.name == parameter.name.name; });
    return at == known_.end() ? nullptr : &*at;
  }
  const ast::Parameter* unknown(const ast::Expr* e, ParameterKind kind) const {
    const ast::Parameter* found = parameter(e);
    return found && found->kind == kind && !value_of(*found) ? found : nullptr;
  }

  // How many dimensions an expression stands for.
  std::optional<std::size_t> length_of(const ast::Expr* e) const {
    if (e->kind == ast::Kind::List || e->kind == ast::Kind::Comprehension || e->kind == ast::Kind::Index)
      return std::nullopt;
    const ast::Parameter* found = parameter(e);
    if (!found && e->kind == ast::Kind::Name) return std::nullopt;  // a let
    if (!found || found->kind != ParameterKind::Integers) return 1;
    const WorkloadArgument* value = value_of(*found);
    const auto* list = value ? std::get_if<std::vector<i64>>(&value->value) : nullptr;
    return list ? std::optional(list->size()) : std::nullopt;
  }

  void match_extent(const ast::Expr* e, i64 extent) {
    if (const ast::Parameter* found = unknown(e, ParameterKind::Integer)) bind(*found, extent);
  }
  void bind(const ast::Parameter& parameter, ArgumentValue value) {
    known_.push_back({std::string(parameter.name.name), std::move(value)});
  }

  const ast::Workload& workload_;
  WorkloadArguments& known_;
};

}  // namespace

WorkloadArguments with_inferred(const WorkloadModule& module, const std::string& workload, WorkloadArguments arguments,
                                const std::vector<OperandType>& operands) {
  auto at = std::ranges::find_if(module.workloads, [&](const ast::Workload& w) { return w.name.name == workload; });
  if (at == module.workloads.end()) return arguments;
  Inference inference(*at, arguments);
  std::size_t next = 0;
  for (const ast::Statement& statement : at->body) {
    auto* declared = std::get_if<ast::Declaration>(&statement.node);
    if (declared && next < operands.size()) inference.match(*declared, operands[next++]);
  }
  return arguments;
}

}  // namespace tw
