#include "dsl/te/te.h"

#include <limits>

#include "dsl/base/text.h"

namespace tw::te {
namespace {

struct ReducerRow {
  std::string_view name;
  Reducer reducer;
  BinaryOp op;  // of ArgMax and ArgMin: new value `op` old value means that the new one is better
};
constexpr ReducerRow kReducers[] = {
    {"sum", Reducer::Sum, BinaryOp::Add},      {"prod", Reducer::Prod, BinaryOp::Mul},
    {"max", Reducer::Max, BinaryOp::Max},      {"min", Reducer::Min, BinaryOp::Min},
    {"argmax", Reducer::ArgMax, BinaryOp::Gt}, {"argmin", Reducer::ArgMin, BinaryOp::Lt}};

BinaryOp operator_of(Reducer reducer) {
  for (const ReducerRow& row : kReducers) {
    if (row.reducer == reducer) return row.op;
  }
  TW_CHECK(false, "a stage without reduction has no operator");
}

// The value that changes nothing. For floats -inf and inf, so that a row of -inf has the maximum -inf.
const Expr* identity(const Build& build, Reducer reducer, DType type) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (reducer) {
    case Reducer::Prod:
      return build.number(1, type);
    case Reducer::Max:
    case Reducer::ArgMax:
      return is_float(type) ? build.number(-infinity, type)
                            : build.integer(type == DType::U8 ? 0 : -highest_of(type) - 1, type);
    case Reducer::Min:
    case Reducer::ArgMin:
      return is_float(type) ? build.number(infinity, type) : build.integer(highest_of(type), type);
    default:
      return build.number(0, type);
  }
}

std::vector<const Expr*> vars_of(const std::vector<IterVar>& axes) {
  std::vector<const Expr*> vars;
  for (const IterVar& axis : axes) vars.push_back(axis.var);
  return vars;
}

std::vector<IterVar> together(std::vector<IterVar> first, const std::vector<IterVar>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

std::optional<Reducer> parse_reducer(std::string_view name) {
  for (const ReducerRow& row : kReducers) {
    if (row.name == name) return row.reducer;
  }
  return std::nullopt;
}

Definition::Definition(std::string_view name) { program_.name = arena_->text(name); }

Str Definition::fresh(std::string_view wanted) {
  std::string name(wanted);
  for (int i = 1; !taken_.insert(name).second; ++i) name = cat(wanted, "_", i);
  return arena_->text(name);
}

const Buffer* Definition::buffer(std::string_view name, DType type, const std::vector<i64>& shape,
                                 std::string_view layout) {
  return arena_->make<Buffer>(BufferId{program_.next_buffer++}, fresh(name), type, arena_->copy(shape), Scope::Global,
                              arena_->text(layout));
}

Tensor Definition::placeholder(std::string_view name, DType type, const std::vector<i64>& shape,
                               std::string_view layout, Role role) {
  params_.push_back({buffer(name, type, shape, layout), role});
  return {arena_.get(), params_.back().buffer};
}

Tensor Definition::input(std::string_view name, DType type, const std::vector<i64>& shape, std::string_view layout) {
  return placeholder(name, type, shape, layout, Role::Input);
}

Tensor Definition::constant(std::string_view name, DType type, const std::vector<i64>& shape, std::string_view layout) {
  return placeholder(name, type, shape, layout, Role::Constant);
}

IterVar Definition::axis(std::string_view name, i64 extent) {
  TW_CHECK(extent > 0, "an axis needs at least one point");
  return {Build{*arena_}.var(program_.next_var++, arena_->text(name)), extent, IterKind::S};
}

IterVar Definition::reduce_axis(std::string_view name, i64 extent) {
  IterVar iter = axis(name, extent);
  iter.kind = IterKind::R;
  return iter;
}

Tensor Definition::result(const Stage& stage, std::size_t index, DType type, bool is_local) {
  std::vector<i64> shape;
  for (const IterVar& axis : stage.axes) shape.push_back(axis.extent);
  std::string name = stage.names[index] + (is_local && stage.is_output ? "_acc" : "");
  const Buffer* made = buffer(name, type, shape, is_local && stage.is_output ? "" : stage.layout);
  if (is_local)
    locals_.push_back(made);
  else
    params_.push_back({made, Role::Output});
  return {arena_.get(), made};
}

// One loop per axis around one block. The block gets its own variables with the names of the axes; those of the stage
// stay the iters, because the value is written in terms of them.
void Definition::emit(std::string_view name, const std::vector<IterVar>& axes, const Stmt* init, const Stmt* body) {
  Build build{*arena_};
  std::vector<const Var*> loops;
  std::vector<const Expr*> bindings;
  for (const IterVar& axis : axes) {
    loops.push_back(build.var(program_.next_var++, axis.var->name));
    bindings.push_back(loops.back());
  }
  const Stmt* nest =
      arena_->make<Block>(Stmt{{Kind::Block}}, BlockId{program_.next_block++}, arena_->text(name), arena_->copy(axes),
                          arena_->copy(bindings), nullptr, init, body, Array<Annotation>{});
  u32 first = program_.next_loop;
  program_.next_loop += static_cast<u32>(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    nest = build.loop({first + static_cast<u32>(i)}, loops[i], axes[i].extent, nest);
  }
  nests_.push_back(nest);
}

std::vector<Tensor> Definition::add(const Stage& stage) {
  TW_CHECK(stage.names.size() == (is_arg(stage.reducer) ? 2u : 1u) && stage.types.size() == stage.names.size());
  if (is_arg(stage.reducer)) return add_arg_reduction(stage);
  if (stage.reducer != Reducer::None) return add_reduction(stage);
  Build build{*arena_};
  Value value = stage.value.literal ? convert(stage.value.dtype(), stage.value) : stage.value;
  DType type = stage.types[0].value_or(value.dtype());
  Tensor made = result(stage, 0, type, !stage.is_output);
  Array<const Expr*> indices = arena_->copy(vars_of(stage.axes));
  emit(made.buffer->name, stage.axes, nullptr, build.store(made.buffer, indices, convert(type, stage.value).expr));
  return {made};
}

std::vector<Tensor> Definition::add_reduction(const Stage& stage) {
  TW_CHECK(!stage.reduce_axes.empty(), "a reduction needs an axis");
  Build build{*arena_};
  DType accumulator = stage.accumulator.value_or(arithmetic_type(stage.value.dtype()));
  DType type = stage.types[0].value_or(accumulator);
  Array<const Expr*> indices = arena_->copy(vars_of(stage.axes));
  bool converts = type != accumulator;
  Stage reduction = stage;
  if (converts && !stage.is_output) reduction.names[0] += "_acc";
  Tensor sum = result(reduction, 0, accumulator, converts || !stage.is_output);
  Value old{arena_.get(), build.load(sum.buffer, indices)};
  Value next =
      convert(accumulator, binary(operator_of(stage.reducer), old, convert(arithmetic_type(accumulator), stage.value)));
  emit(sum.buffer->name, together(stage.axes, stage.reduce_axes),
       build.store(sum.buffer, indices, identity(build, stage.reducer, accumulator)),
       build.store(sum.buffer, indices, next.expr));
  if (!converts) return {sum};
  Stage last{.names = stage.names, .types = {type}, .is_output = stage.is_output, .layout = stage.layout};
  std::vector<Value> at;
  for (const IterVar& old_axis : stage.axes) {
    last.axes.push_back(axis(old_axis.var->name, old_axis.extent));
    at.push_back((*this)[last.axes.back()]);
  }
  last.value = load(*arena_, sum.buffer, at);
  return add(last);
}

std::vector<Tensor> Definition::add_arg_reduction(const Stage& stage) {
  TW_CHECK(!stage.reduce_axes.empty(), "a reduction needs an axis");
  Build build{*arena_};
  DType value_type = stage.types[1].value_or(arithmetic_type(stage.value.dtype()));
  DType index_type = stage.types[0].value_or(DType::I64);
  Tensor best_index = result(stage, 0, index_type, !stage.is_output);
  Tensor best = result(stage, 1, value_type, !stage.is_output);
  Array<const Expr*> indices = arena_->copy(vars_of(stage.axes));
  Value position = literal(*arena_, i64{0});
  for (const IterVar& axis : stage.reduce_axes) position = position * axis.extent + (*this)[axis];
  Value old{arena_.get(), build.load(best.buffer, indices)},
      old_index{arena_.get(), build.load(best_index.buffer, indices)};
  Value now = convert(value_type, stage.value), index = convert(index_type, position);
  // Of equal values the smallest index wins, so that the order of the iterations does not matter.
  Value better = binary(BinaryOp::Or, binary(operator_of(stage.reducer), now, old),
                        binary(BinaryOp::And, binary(BinaryOp::Eq, now, old), binary(BinaryOp::Lt, index, old_index)));
  Array<StoreTarget> targets = arena_->list<StoreTarget>({{best_index.buffer, indices}, {best.buffer, indices}});
  const Stmt* update =
      build.store(targets, arena_->list<const Expr*>({build.select(better.expr, index.expr, old_index.expr),
                                                      build.select(better.expr, now.expr, old.expr)}));
  const Stmt* init = build.store(
      targets, arena_->list<const Expr*>({build.integer(0, index_type), identity(build, stage.reducer, value_type)}));
  emit(best_index.buffer->name, together(stage.axes, stage.reduce_axes), init, update);
  return {best_index, best};
}

Tensor Definition::compute(std::string_view name, const std::vector<IterVar>& axes, const Value& value) {
  return add({.names = {std::string(name)}, .types = {std::nullopt}, .axes = axes, .value = value})[0];
}

Tensor Definition::output(std::string_view name, const std::vector<IterVar>& axes, const Value& value) {
  return add(
      {.names = {std::string(name)}, .types = {std::nullopt}, .axes = axes, .value = value, .is_output = true})[0];
}

Tensor Definition::sum(std::string_view name, const std::vector<IterVar>& axes, const std::vector<IterVar>& over,
                       const Value& value) {
  return add({.names = {std::string(name)},
              .types = {std::nullopt},
              .axes = axes,
              .reducer = Reducer::Sum,
              .reduce_axes = over,
              .value = value})[0];
}

OwnedProgram Definition::finish() {
  program_.params = arena_->copy(params_);
  program_.locals = arena_->copy(locals_);
  program_.body = Build{*arena_}.seq(nests_);
  return {arena_, program_};
}

}  // namespace tw::te
