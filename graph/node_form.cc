#include "graph/node_form.h"

#include <algorithm>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/points.h"

namespace tw::graph {
namespace {

// Are the first `dimensions` indices those that the block writes to?
bool is_own_place(const Load* load, const Store* store, std::size_t dimensions) {
  const StoreTarget& target = store->targets[0];
  if (load->indices.size() < dimensions || target.indices.size() < dimensions) return false;
  for (std::size_t d = 0; d < dimensions; ++d) {
    const Var *read = as<Var>(load->indices[d]), *written = as<Var>(target.indices[d]);
    bool is_both_zero = constant_of(load->indices[d]) == 0 && constant_of(target.indices[d]) == 0;
    if (!is_both_zero && (!read || read != written)) return false;
  }
  return true;
}
bool is_own_place(const Load* load, const Store* store) {
  std::size_t dimensions = store->targets[0].indices.size();
  return load->indices.size() == dimensions && is_own_place(load, store, dimensions);
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
  std::vector<const Buffer*> apart;  // read elsewhere than in its row
  const std::size_t rows = shape.empty() ? 0 : shape.size() - 1;
  for (const Block* block : blocks_in(program.body)) {
    const Store* store = single_store(block);
    bool is_plain = is_spatial(block) && !block->init && store;
    form.has_reduction |= !is_plain;
    form.is_elementwise &= is_plain && !knows_place(store->values[0], store);
    form.is_movement &= is_plain && is_movement(store->values[0]);
    for_each<Load>(block->body, [&](const Load* load) {
      if (!is_plain || !is_own_place(load, store)) moved.push_back(load->buffer);
      if (!store || !is_own_place(load, store, rows)) apart.push_back(load->buffer);
    });
  }
  auto is_in = [](const std::vector<const Buffer*>& list, const Buffer* b) { return std::ranges::count(list, b) > 0; };
  bool has_own_rows = std::ranges::none_of(program.locals, [&](const Buffer* local) { return is_in(apart, local); });
  for (std::size_t n = 0; n < node.inputs.size(); ++n) {
    const Buffer* operand = program.params[n].buffer;
    const std::vector<i64>& own = graph.values[node.inputs[n]].type.shape;
    form.same_place.push_back(own == shape && !is_in(moved, operand));
    bool has_rows =
        own.size() == shape.size() && std::equal(own.begin(), own.begin() + static_cast<i64>(rows), shape.begin());
    form.same_row.push_back(has_rows && has_own_rows && !is_in(apart, operand));
    form.is_elementwise &= form.same_place.back() || operand->shape.empty();
  }
  bool has_own_places = std::ranges::none_of(program.locals, [&](const Buffer* local) { return is_in(moved, local); });
  form.is_elementwise &= node.outputs.size() == 1 && has_own_places;
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
