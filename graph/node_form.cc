#include "graph/node_form.h"

#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/points.h"

namespace tw::graph {
namespace {

// Are these the indices that the block writes to?
bool is_own_place(const Load* load, const Store* store) {
  const StoreTarget& target = store->targets[0];
  if (load->indices.size() != target.indices.size()) return false;
  for (std::size_t d = 0; d < load->indices.size(); ++d) {
    const Var *read = as<Var>(load->indices[d]), *written = as<Var>(target.indices[d]);
    bool is_both_zero = constant_of(load->indices[d]) == 0 && constant_of(target.indices[d]) == 0;
    if (!is_both_zero && (!read || read != written)) return false;
  }
  return true;
}

// Does a value depend on where it is, but for what is read there?
bool knows_place(const Expr* value, const Store* store) {
  bool found = false;
  walk(value, [&](const tw::Node* node) {
    const Load* load = as<Load>(node);
    found |= as<Var>(node) != nullptr;
    return !(load && is_own_place(load, store));
  });
  return found;
}

bool is_list(const WorkloadArgument& argument) { return std::holds_alternative<std::vector<i64>>(argument.value); }

bool is_movement(const Expr* value) {
  if (as<Load>(value) || constant_of(value) || as<FloatImm>(value)) return true;
  const Select* select = as<Select>(value);
  return select && is_movement(select->then) && is_movement(select->otherwise);
}

}  // namespace

NodeForm form_of(const Graph& graph, const Node& node) {
  NodeForm form;
  std::string error;
  std::optional<OwnedProgram> owned = program_of(graph, node, error);
  if (!owned) refused(error);
  const Program& program = owned->program;
  const std::vector<i64>& shape = graph.values[node.outputs[0]].type.shape;
  form.is_movement = true;
  form.is_elementwise = std::ranges::none_of(node.arguments, is_list);
  std::vector<const Buffer*> moved;  // read elsewhere than at the place of the result
  for (const Block* block : blocks_in(program.body)) {
    const Store* store = single_store(block);
    bool is_plain = is_spatial(block) && !block->init && store;
    form.has_reduction |= !is_plain;
    form.is_elementwise &= is_plain && !knows_place(store->values[0], store);
    form.is_movement &= is_plain && is_movement(store->values[0]);
    for_each<Load>(block->body, [&](const Load* load) {
      if (!is_plain || !is_own_place(load, store)) moved.push_back(load->buffer);
    });
  }
  for (std::size_t n = 0; n < node.inputs.size(); ++n) {
    const Buffer* operand = program.params[n].buffer;
    bool is_alike = graph.values[node.inputs[n]].type.shape == shape;
    form.same_place.push_back(is_alike && std::ranges::count(moved, operand) == 0);
    form.is_elementwise &= form.same_place.back() || operand->shape.empty();
  }
  auto is_moved = [&](const Buffer* local) { return std::ranges::count(moved, local) > 0; };
  form.is_elementwise &= node.outputs.size() == 1 && std::ranges::none_of(program.locals, is_moved);
  i64 read = 0;
  for (ValueId input : node.inputs) read += elements_of(graph.values[input].type);
  form.has_reuse = form.has_reduction && points_of(program) > 4.0 * static_cast<double>(read);
  return form;
}

bool is_widening(const Graph& graph, const Node& node) {
  return node.op == "cast" && is_half(graph.values[node.inputs[0]].type.dtype) &&
         graph.values[node.outputs[0]].type.dtype == DType::F32;
}

bool is_view(const Graph& graph, const Node& node) {
  if (node.op == "reshape" || node.op == "copy") return true;
  if (node.op != "transpose") return false;
  const std::vector<i64>& shape = graph.values[node.inputs[0]].type.shape;
  i64 last = -1;
  for (i64 d : *integers(node.arguments, "order")) {
    if (shape[static_cast<std::size_t>(d)] == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

}  // namespace tw::graph
