// A workload with arguments -> Program. Runs the statements in order: conditions on parameters are decided, stages are
// lowered through te::Definition, epilogues are appended to the output.
#include <algorithm>

#include "dsl/analysis/affine.h"
#include "dsl/base/text.h"
#include "dsl/ir/limits.h"
#include "dsl/ir/print.h"
#include "dsl/ir/walk.h"
#include "dsl/text/compose.h"
#include "dsl/text/lower_value.h"
#include "dsl/text/workload.h"

namespace tw {
namespace {

using ast::AxisPlace, ast::Conditional, ast::Declaration, ast::Epilogue, ast::Expr, ast::Let, ast::NamePlace,
    ast::Parameter;
using ast::Require, ast::StageText, ast::Statement, ast::ToleranceSetting, ast::Workload;

using namespace instantiation;

constexpr i64 kMaxExtent = i64{1} << 40;
constexpr std::size_t kMaxDimensions = 16;

// The names of integers in a condition with their values: "CI = 3, groups = 2".
void collect_values(const Expr* e, const Names& scope, std::vector<std::string>& out) {
  if (auto* name = ast::as<ast::Name>(e)) {
    const Meaning* meaning = scope.find(name->name);
    const i64* value = meaning ? std::get_if<i64>(meaning) : nullptr;
    std::string text = value ? cat(name->name, " = ", *value) : "";
    if (value && std::find(out.begin(), out.end(), text) == out.end()) out.push_back(text);
  }
  if (auto* unary = ast::as<ast::Unary>(e)) collect_values(unary->value, scope, out);
  if (auto* call = ast::as<ast::Call>(e)) {
    for (const ast::Argument& argument : call->arguments) collect_values(argument.value, scope, out);
  }
  if (auto* binary = ast::as<ast::Binary>(e)) {
    collect_values(binary->a, scope, out);
    collect_values(binary->b, scope, out);
  }
}

// The first access that certainly leaves its buffer, as a message; "" if there is none. Only where no `if` stands guard
// and the index is a linear form, whose bounds are reached.
std::string access_outside(const tw::Expr* e, const VarRanges& ranges) {
  std::string found;
  if (const Select* select = tw::as<Select>(e)) return access_outside(select->condition, ranges);
  if (const Load* load = tw::as<Load>(e)) {
    for (std::size_t i = 0; i < load->indices.size() && found.empty(); ++i) {
      std::optional<Interval> reach =
          linear_form(load->indices[i]) ? interval_of(load->indices[i], ranges) : std::nullopt;
      i64 extent = load->buffer->shape[i];
      if (!reach || (reach->min >= 0 && reach->max < extent)) continue;
      found = cat("index ", i, " of `", load->buffer->name, "` takes the values ", reach->min, " to ", reach->max,
                  ", its extent is ", extent);
    }
  }
  for_each_child(e, [&](const Node* child) {
    if (found.empty()) found = access_outside(static_cast<const tw::Expr*>(child), ranges);
  });
  return found;
}

Meaning meaning_of(const ArgumentValue& value) {
  if (const i64* integer = std::get_if<i64>(&value)) return *integer;
  if (const DType* type = std::get_if<DType>(&value)) return *type;
  const auto& integers = std::get<std::vector<i64>>(value);
  return list_of({integers.begin(), integers.end()});
}

class Instantiation {
 public:
  Instantiation(te::Definition& definition, const WorkloadModule& module, const Workload& workload,
                std::vector<const Epilogue*> epilogues, Diagnostics& diagnostics)
      : workload_(workload),
        epilogues_(std::move(epilogues)),
        errors_(diagnostics),
        definition_(definition),
        lowering_(definition_.arena(), module, errors_) {}

  // Its inputs and constants are these tensors, and its outputs those of the program if `is_output`.
  void read(const std::vector<te::Tensor>& operands, bool is_output) {
    operands_ = &operands;
    is_inside_ = !is_output;
  }

  // False after an error.
  bool run(const WorkloadArguments& arguments, const WorkloadModule& module) {
    parameters(arguments);
    if (!errors_.any()) statements(workload_.body, scope_);
    if (!errors_.any() && outputs_ == 0)
      errors_(workload_.name.span, cat("workload `", workload_.name.name, "` has no output"));
    if (!errors_.any() && operands_ && next_operand_ < operands_->size())
      errors_(workload_.name.span,
              cat("`", workload_.name.name, "` reads ", next_operand_, " operands, found ", operands_->size()));
    if (!errors_.any() && !epilogues_.empty()) apply_epilogues(module);
    return !errors_.any();
  }
  const std::vector<te::Tensor>& outputs() const { return made_; }

 private:
  void parameters(const WorkloadArguments& arguments) {
    for (const Parameter& parameter : workload_.parameters) {
      auto given = std::find_if(arguments.begin(), arguments.end(),
                                [&](const WorkloadArgument& a) { return a.name == parameter.name.name; });
      if (given != arguments.end()) {
        scope_.add(parameter.name.name, meaning_of(given->value));
      } else if (parameter.kind == ParameterKind::Type) {
        if (std::optional<DType> type = evaluate_type(parameter.fallback, scope_, errors_))
          scope_.add(parameter.name.name, *type);
      } else if (std::optional<Meaning> value = evaluate_constant(parameter.fallback, scope_, errors_)) {
        bool is_list = items_of(*value) != nullptr;
        if (is_list != (parameter.kind == ParameterKind::Integers))
          errors_(parameter.fallback->span,
                  is_list ? "expected an integer, found a list" : "expected a list of integers");
        scope_.add(parameter.name.name, *value);
      }
    }
  }

  // Goes on after an error, but not after a `require` that does not hold: what follows relies on it.
  void statements(const std::vector<Statement>& list, Names& scope) {
    for (const Statement& item : list) {
      if (errors_.full() || violated_) return;
      std::visit([&](const auto& node) { statement(node, scope); }, item.node);
    }
  }

  void add(Names& scope, const NamePlace& name, Meaning meaning) {
    if (!scope.add(name.name, std::move(meaning))) errors_(name.span, cat("there is already a `", name.name, "` here"));
  }

  void statement(const Declaration& node, Names& scope) {
    std::optional<DType> type = evaluate_type(node.type, scope, errors_);
    std::optional<std::vector<i64>> shape = shape_of(node, scope);
    if (!type || !shape) return;
    if (operands_) return take_operand(node, *type, *shape, scope);
    te::Tensor made = node.role == Role::Input ? definition_.input(node.name.name, *type, *shape, node.layout)
                                               : definition_.constant(node.name.name, *type, *shape, node.layout);
    add(scope, node.name, made);
  }

  void take_operand(const Declaration& node, DType type, const std::vector<i64>& shape, Names& scope) {
    if (next_operand_ == operands_->size())
      return errors_(node.name.span, cat("`", workload_.name.name, "` has no operand for `", node.name.name, "`"));
    const te::Tensor& operand = (*operands_)[next_operand_++];
    const Buffer& buffer = *operand.buffer;
    if (buffer.dtype != type || !std::ranges::equal(buffer.shape, shape))
      return errors_(node.name.span, cat("expected ", name_of(type), "[", join(shape, ", "), "] for `", node.name.name,
                                         "`, found ", name_of(buffer.dtype), "[", join(buffer.shape, ", "), "]"));
    add(scope, node.name, operand);
  }

  std::optional<std::vector<i64>> shape_of(const Declaration& node, const Names& scope) {
    std::vector<i64> shape;
    for (const Expr* extent : node.shape) {
      std::optional<Extents> found = extents_of(extent, scope, cat("a dimension of `", node.name.name, "`"));
      if (!found) return std::nullopt;
      shape.insert(shape.end(), found->sizes.begin(), found->sizes.end());
    }
    return fits(shape, node.name) ? std::optional(shape) : std::nullopt;
  }

  // One extent, or those of several dimensions or axes.
  struct Extents {
    std::vector<i64> sizes;
    bool is_list;
  };
  std::optional<Extents> extents_of(const Expr* e, const Names& scope, const std::string& what) {
    std::optional<Meaning> value = evaluate_constant(e, scope, errors_);
    if (!value) return std::nullopt;
    const std::vector<Meaning>* items = items_of(*value);
    Extents out{{}, items != nullptr};
    for (const Meaning& one : items ? *items : std::vector<Meaning>{*value}) {
      const i64* size = std::get_if<i64>(&one);
      if (size && *size >= 1 && *size <= kMaxExtent) {
        out.sizes.push_back(*size);
        continue;
      }
      errors_(e->span, size ? cat(what, " has extent ", *size) : "expected a list of integers",
              !size       ? ""
              : *size < 1 ? "an extent is at least 1"
                          : "an extent is at most 2^40");
      return std::nullopt;
    }
    return out;
  }

  bool fits(const std::vector<i64>& shape, const NamePlace& name) {
    i64 elements = 1;
    for (i64 extent : shape) {
      if (__builtin_mul_overflow(elements, extent, &elements) || elements > kMostElements) {
        errors_(name.span, cat("`", name.name, "` has more than 2^45 elements"));
        return false;
      }
    }
    if (shape.size() <= kMaxDimensions) return true;
    errors_(name.span,
            cat("`", name.name, "` has ", shape.size(), " dimensions; at most ", kMaxDimensions, " are possible"));
    return false;
  }

  void statement(const Let& node, Names& scope) {
    auto* alias = ast::as<ast::Name>(node.value);
    const Meaning* meaning = alias ? scope.find(alias->name) : nullptr;
    if (meaning && std::holds_alternative<te::Tensor>(*meaning)) return add(scope, node.name, *meaning);
    if (std::optional<Meaning> value = evaluate_constant(node.value, scope, errors_)) add(scope, node.name, *value);
  }

  void statement(const Require& node, Names& scope) {
    std::optional<i64> holds = evaluate_integer(node.condition, scope, errors_);
    if (!holds || *holds) return;
    violated_ = true;
    std::vector<std::string> values;
    collect_values(node.condition, scope, values);
    std::string message =
        node.message.empty() ? cat("`", ast::to_string(node.condition), "` does not hold") : std::string(node.message);
    errors_(node.condition->span,
            cat(workload_.name.name, ": ", message, values.empty() ? "" : " with ", join(values, ", ")));
  }

  void statement(const ToleranceSetting& node, Names&) { definition_.set_tolerance(node.tolerance); }

  void statement(const Conditional& node, Names& scope) {
    std::optional<i64> holds = evaluate_integer(node.condition, scope, errors_);
    if (holds) statements(*holds ? node.then : node.otherwise, scope);
  }

  // ---- stages

  std::optional<std::vector<IterVar>> axes_of(const std::vector<AxisPlace>& places, bool reduce, const Names& outer,
                                              Names& inside) {
    std::vector<IterVar> axes;
    for (const AxisPlace& place : places) {
      std::optional<Extents> extents = extents_of(place.extent, outer, cat("axis `", place.name.name, "`"));
      if (!extents) return std::nullopt;
      std::vector<Meaning> values;
      for (i64 extent : extents->sizes) {
        std::string name = extents->is_list ? cat(place.name.name, values.size()) : std::string(place.name.name);
        axes.push_back(reduce ? definition_.reduce_axis(name, extent) : definition_.axis(name, extent));
        values.emplace_back(definition_[axes.back()]);
      }
      if (inside.add(place.name.name, extents->is_list ? list_of(values) : values[0])) continue;
      errors_(place.name.span, cat("there is already an axis `", place.name.name, "` here"));
      return std::nullopt;
    }
    return axes;
  }

  std::optional<te::Stage> lower(const StageText& node, const Names& scope) {
    te::Stage stage{.reducer = node.reducer, .is_output = node.is_output, .layout = std::string(node.layout)};
    Names inside(&scope);
    std::optional<std::vector<IterVar>> axes = axes_of(node.axes, false, scope, inside);
    std::optional<std::vector<IterVar>> reduce_axes = axes_of(node.reduce_axes, true, scope, inside);
    for (std::size_t i = 0; i < node.names.size(); ++i) {
      stage.names.push_back(std::string(node.names[i].name));
      stage.types.push_back(node.types[i] ? evaluate_type(node.types[i], scope, errors_) : std::nullopt);
    }
    if (node.accumulator) stage.accumulator = evaluate_type(node.accumulator, scope, errors_);
    if (errors_.any() || !axes || !reduce_axes || !agrees(node, stage, reduce_axes->empty())) return std::nullopt;
    std::vector<i64> shape;
    for (const IterVar& axis : *axes) shape.push_back(axis.extent);
    std::optional<te::Value> value = lowering_.lower(node.value, inside, stage.accumulator);
    if (!value || !fits(shape, node.names[0])) return std::nullopt;
    VarRanges ranges;
    for (const IterVar& axis : *axes) ranges.set_extent(axis.var, axis.extent);
    for (const IterVar& axis : *reduce_axes) ranges.set_extent(axis.var, axis.extent);
    if (std::string outside = access_outside(value->expr, ranges); !outside.empty()) {
      errors_(node.value->span, outside, "guard it with `if ... then ... else ...`");
      return std::nullopt;
    }
    stage.axes = *axes;
    stage.reduce_axes = *reduce_axes;
    stage.value = *value;
    return stage;
  }

  // Do names, types and reducer fit together?
  bool agrees(const StageText& node, const te::Stage& stage, bool reduces_nothing) {
    std::size_t wanted = te::is_arg(node.reducer) ? 2 : 1;
    if (node.names.size() != wanted) {
      errors_(node.names.back().span, cat("expected ", wanted, wanted == 1 ? " result" : " results (index and value)",
                                          ", found ", node.names.size()));
    } else if (node.reducer != te::Reducer::None && reduces_nothing) {
      errors_(node.reducer_span, "a reduction needs an axis");
    } else if (wanted == 2 && stage.types[0] && (!is_int(*stage.types[0]) || *stage.types[0] == DType::Bool)) {
      errors_(node.types[0]->span, cat("expected an integer type for the index, found ", name_of(*stage.types[0])));
    } else if (wanted == 2 && stage.accumulator) {
      errors_(node.accumulator->span, "argmax and argmin have no accumulator", "give the value a type instead");
    } else if (stage.accumulator == DType::Bool) {
      errors_(node.accumulator->span, "expected the type of a number, found bool");
    } else {
      return true;
    }
    return false;
  }

  void statement(const StageText& node, Names& scope) {
    std::optional<te::Stage> stage = lower(node, scope);
    if (!stage) return;
    outputs_ += node.is_output;
    bool feeds_epilogues = node.is_output && !epilogues_.empty();
    if (feeds_epilogues && (outputs_ > 1 || node.names.size() > 1)) {
      return errors_(node.span, "epilogues need a workload with one output");
    }
    if (feeds_epilogues) {
      result_type_ = stage->types[0];
      result_layout_ = std::exchange(stage->layout, "");
      stage->types[0] = std::nullopt;
      stage->is_output = false;
    }
    if (is_inside_) stage->is_output = false;
    std::vector<te::Tensor> made = definition_.add(*stage);
    for (std::size_t i = 0; i < made.size(); ++i) add(scope, node.names[i], made[i]);
    if (node.is_output) made_.insert(made_.end(), made.begin(), made.end());
    if (!feeds_epilogues) return;
    result_ = made[0];
    result_axes_ = stage->axes;
    // Without a type of its own the output has that of its value.
    if (!result_type_) result_type_ = made[0].buffer->dtype;
  }

  // ---- epilogues

  void apply_epilogues(const WorkloadModule& module) {
    for (std::size_t i = 0; i < epilogues_.size() && !errors_.any(); ++i) {
      const Epilogue& epilogue = *epilogues_[i];
      bool foreign = std::none_of(module.epilogues.begin(), module.epilogues.end(),
                                  [&](const Epilogue& e) { return &e == &epilogue; });
      Errors::Blame blame(errors_, foreign ? std::optional(workload_.name.span) : std::nullopt);
      apply(epilogue, i + 1 == epilogues_.size());
    }
  }

  void apply(const Epilogue& epilogue, bool is_last) {
    te::Stage stage{.names = {std::string(epilogue.name.name)}, .types = {std::nullopt}, .is_output = is_last};
    Names scope;
    std::vector<te::Value> vars;
    for (const IterVar& old : result_axes_) {
      stage.axes.push_back(definition_.axis(old.var->name, old.extent));
      vars.push_back(definition_[stage.axes.back()]);
    }
    scope.add("T", *result_type_);
    scope.add("shape", list_of({result_.buffer->shape.begin(), result_.buffer->shape.end()}));
    scope.add("axes", list_of({vars.begin(), vars.end()}));
    if (!vars.empty()) {
      scope.add("channels", stage.axes.back().extent);
      scope.add("channel", vars.back());
    }
    add(scope, epilogue.parameter, te::load(definition_.arena(), result_.buffer, vars));
    statements(epilogue.body, scope);
    if (errors_.any()) return;
    std::optional<te::Value> value = lowering_.lower(epilogue.result, scope);
    if (!value) return;
    stage.value = *value;
    if (is_last) {
      stage.types[0] = result_type_;
      stage.layout = result_layout_;
    }
    result_ = definition_.add(stage)[0];
    result_axes_ = stage.axes;
  }

  const Workload& workload_;
  std::vector<const Epilogue*> epilogues_;
  Errors errors_;
  te::Definition& definition_;
  ValueLowering lowering_;
  Names scope_;
  int outputs_ = 0;
  bool violated_ = false;
  // As a part of a larger program.
  const std::vector<te::Tensor>* operands_ = nullptr;
  std::size_t next_operand_ = 0;
  bool is_inside_ = false;
  std::vector<te::Tensor> made_;
  // What the next epilogue is applied to, and what the last one must become.
  te::Tensor result_;
  std::vector<IterVar> result_axes_;
  std::optional<DType> result_type_;
  std::string result_layout_;
};

template <class List>
auto find_named(const List& list, std::string_view name) -> decltype(&list[0]) {
  auto at = std::find_if(list.begin(), list.end(), [&](const auto& item) { return item.name.name == name; });
  return at == list.end() ? nullptr : &*at;
}

// Null after errors.
const Workload* checked_workload(const WorkloadModule& module, const std::string& name,
                                 const WorkloadArguments& arguments, const std::vector<std::string>& epilogues,
                                 Diagnostics& diagnostics) {
  const Workload* workload = find_named(module.workloads, name);
  for (const CallProblem& problem : check_call(module, name, arguments, epilogues)) {
    diagnostics.error(workload ? workload->name.span : Span{}, problem.message, problem.note);
  }
  return diagnostics.has_errors() ? nullptr : workload;
}

}  // namespace

std::optional<OwnedProgram> instantiate(const WorkloadModule& module, const std::string& name,
                                        const WorkloadArguments& arguments, const std::vector<std::string>& epilogues,
                                        Diagnostics& diagnostics) {
  const Workload* workload = checked_workload(module, name, arguments, epilogues, diagnostics);
  if (!workload) return std::nullopt;
  std::vector<const Epilogue*> found;
  for (const std::string& epilogue : epilogues) {
    const Epilogue* own = find_named(module.epilogues, epilogue);
    found.push_back(own ? own : find_named(operator_library().epilogues, epilogue));
  }
  te::Definition definition(name);
  Instantiation instantiation(definition, module, *workload, std::move(found), diagnostics);
  if (!instantiation.run(arguments, module)) return std::nullopt;
  return definition.finish();
}

std::optional<std::vector<te::Tensor>> add_workload(te::Definition& definition, const WorkloadModule& module,
                                                    const std::string& workload, const WorkloadArguments& arguments,
                                                    const std::vector<te::Tensor>& operands, bool is_output,
                                                    Diagnostics& diagnostics) {
  std::vector<OperandType> types;
  for (const te::Tensor& operand : operands)
    types.push_back({operand.buffer->dtype, {operand.buffer->shape.begin(), operand.buffer->shape.end()}});
  WorkloadArguments all = with_inferred(module, workload, arguments, types);
  const Workload* found = checked_workload(module, workload, all, {}, diagnostics);
  if (!found) return std::nullopt;
  Instantiation instantiation(definition, module, *found, {}, diagnostics);
  instantiation.read(operands, is_output);
  if (!instantiation.run(all, module)) return std::nullopt;
  return instantiation.outputs();
}

std::string workload_text(const Program& program) { return print(program); }

}  // namespace tw
