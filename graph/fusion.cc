#include "graph/fusion.h"

#include <algorithm>
#include <set>

#include "dsl/base/text.h"
#include "graph/node_form.h"

namespace tw::graph {
namespace {

constexpr u32 kNone = ~0u;

// Nodes that come together again behind one value.
constexpr std::size_t kMostClaimed = 16;

// A name of several operators stays readable.
constexpr std::size_t kMostNames = 4;

class Fusion {
 public:
  Fusion(const Graph& graph, InPlace in_place, i64 shared_row_bytes)
      : graph_(graph),
        in_place_(in_place == InPlace::Yes),
        shared_row_bytes_(shared_row_bytes),
        parts_(graph),
        makers_(graph.values.size(), kNone),
        readers_(graph.values.size()),
        group_(graph.nodes.size(), kNone) {
    for (u32 n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      for (ValueId output : node.outputs) makers_[output] = n;
      for (ValueId input : std::set<ValueId>(node.inputs.begin(), node.inputs.end())) readers_[input].push_back(n);
      forms_.push_back(form_of(graph, node));
    }
    for (ValueId output : graph.outputs) is_output_.insert(output);
    for (u32 n = 0; n < graph.nodes.size(); ++n) {
      is_constant_.push_back(
          std::ranges::all_of(graph.nodes[n].inputs, [&](ValueId input) { return is_constant(input); }));
      copied_.push_back(should_be_copied(n));
      views_.push_back(!copied_[n] && becomes_view(n));
    }
  }

  FusedGraph run() {
    for (u32 n = 0; n < graph_.nodes.size(); ++n) {
      if (views_[n] || copied_[n]) continue;
      if (group_[n] == kNone) join_producer(n);
      if (group_[n] == kNone) group_[n] = new_group();
      members_[group_[n]].push_back(n);
      take_in_operands(n);
      take_in_rows(n);
      claim_readers(n);
    }
    FusedGraph fused;
    for (std::vector<u32>& nodes : members_) {
      if (!nodes.empty()) fused.groups.push_back(group_of(nodes));
    }
    for (const auto& [concat, operand] : copies_) fused.groups.push_back(copy_of(concat, operand));
    auto last = [](const Group& group) { return group.nodes.back(); };
    std::ranges::stable_sort(fused.groups, {}, last);
    check_order(fused.groups);
    for (ValueId value = 0; value < graph_.values.size(); ++value) fused.parts.push_back(parts_.of(value));
    return fused;
  }

 private:
  // What a group reads was made before it, by others or outside.
  void check_order(const std::vector<Group>& groups) const {
    std::set<ValueId> made(graph_.inputs.begin(), graph_.inputs.end());
    for (const Group& group : groups) {
      for (ValueId input : group.inputs)
        TW_CHECK(made.count(memory_of(input)) > 0, "a group reads what no other one makes");
      for (ValueId output : group.outputs) made.insert(memory_of(output));
    }
  }

  u32 new_group() {
    members_.emplace_back();
    return static_cast<u32>(members_.size() - 1);
  }

  bool has_one_reader(ValueId value) const { return readers_[value].size() == 1 && is_output_.count(value) == 0; }

  // What every reader does for itself: values that are the same along some dimensions, f32 of numbers of 16 bits, and
  // constants in another order, since packing reads them in any. Of the nodes before it this is known.
  bool should_be_copied(u32 n) const {
    const Node& node = graph_.nodes[n];
    if (is_output_.count(node.outputs[0]) > 0 || readers_[node.outputs[0]].empty()) return false;
    if (is_widening(graph_, node) && is_read_as_stored(node.inputs[0])) return true;
    if (!forms_[n].is_movement) return false;
    if (node.op == "broadcast") return true;
    if (is_view(graph_, node)) return is_copied_value(node.inputs[0]);
    return std::ranges::all_of(node.inputs, [&](ValueId input) {
      return graph_.values[memory_of(input)].data || (is_copied_value(input) && is_constant(input));
    });
  }
  // Is it in memory as it is, or moved, whatever is done with it? What a kernel computes it goes on with.
  bool is_read_as_stored(ValueId value) const {
    u32 maker = makers_[value];
    return maker == kNone || graph_.nodes[maker].op == "cast" || forms_[maker].is_movement || !has_one_reader(value);
  }
  bool is_copied_value(ValueId value) const { return makers_[value] != kNone && copied_[makers_[value]]; }
  // Does it depend on constants alone?
  bool is_constant(ValueId value) const {
    return makers_[value] == kNone ? graph_.values[value].data != nullptr : is_constant_[makers_[value]];
  }

  // Does a view stand between a node that only moves elements, as a slice, and the only reader? Then all of it is read
  // where the elements come from.
  bool goes_on_moving(u32 n) const {
    const Node& node = graph_.nodes[n];
    u32 maker = makers_[node.inputs[0]];
    return maker != kNone && forms_[maker].is_movement && !views_[maker] && has_one_reader(node.inputs[0]) &&
           has_one_reader(node.outputs[0]);
  }

  // Is the result of a node where its operands are, so that it is no kernel?
  bool becomes_view(u32 n) {
    const Node& node = graph_.nodes[n];
    // What is nowhere as a whole cannot be had under another name.
    if (is_view(graph_, node)) {
      return !is_copied_value(node.inputs[0]) && !goes_on_moving(n) &&
             parts_.add(node.outputs[0], parts_.of(node.inputs[0]));
    }
    if (!in_place_ || elements_of(graph_.values[node.outputs[0]].type) == 0) return false;
    return node.op == "slice" ? cuts_in_place(n) : node.op == "concat" && joins_in_place(n);
  }

  // A slice that several nodes read, of what is in memory anyway. Others do best to compute what is read alone.
  bool cuts_in_place(u32 n) {
    constexpr i64 kShortestRow = 64;  // bytes
    const Node& node = graph_.nodes[n];
    ValueId operand = node.inputs[0], result = node.outputs[0];
    u32 maker = makers_[operand];
    if (readers_[result].size() < 2 || is_output_.count(result) > 0 || is_copied_value(operand)) return false;
    bool is_in_memory = !has_one_reader(operand) || maker == kNone || views_[maker] || forms_[maker].has_reduction;
    std::optional<Part> own = is_in_memory ? part_of_slice(graph_, node) : std::nullopt;
    const OperandType& type = graph_.values[result].type;
    if (!own || bytes_of(type) / own->rows < kShortestRow) return false;
    std::optional<Part> part =
        composed(parts_.of(operand), elements_of(graph_.values[operand].type), *own, elements_of(type));
    return part && parts_.add(result, *part);
  }

  // Operands of a concatenation are made in their places of its result. Those that are elsewhere are copied, if that is
  // not all of them.
  bool joins_in_place(u32 n) {
    const Node& node = graph_.nodes[n];
    ValueId result = node.outputs[0];
    auto has_nothing = [&](ValueId value) { return elements_of(graph_.values[value].type) == 0; };
    if (std::ranges::any_of(node.inputs, has_nothing)) return false;
    if (is_known_concat(n)) return true;
    std::vector<std::size_t> copies;
    std::vector<Part> places;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      Part place = part_of_concat(graph_, node, i);
      if (!Parts::is_place_for(place, graph_.values[node.inputs[i]].type)) return false;
      places.push_back(place);
      if (!can_move(node.inputs[i]) || (i > 0 && has_memory_of(node.inputs[i], node.inputs[0]))) copies.push_back(i);
    }
    if (copies.size() == node.inputs.size() || (!copies.empty() && is_taken_in(result))) return false;
    bool has_moved = false;
    std::vector<std::pair<u32, std::size_t>> copied;
    for (std::size_t i = 0; i < places.size(); ++i) {
      bool is_moved = std::ranges::count(copies, i) == 0 && parts_.move(node.inputs[i], places[i]);
      has_moved |= is_moved;
      if (!is_moved) copied.push_back({n, i});
    }
    if (has_moved) copies_.insert(copies_.end(), copied.begin(), copied.end());
    return has_moved;
  }

  // The same operands were joined before. Importers make one concatenation of many operands, as several networks have
  // them again and again, a chain with the same beginning.
  bool is_known_concat(u32 n) {
    const Node& node = graph_.nodes[n];
    auto same_as = [&](ValueId value) {
      auto known = same_.find(value);
      return known == same_.end() ? value : known->second;
    };
    std::vector<ValueId> operands;
    for (ValueId input : node.inputs) operands.push_back(same_as(input));
    auto [known, is_new] = concats_.try_emplace({operands, part_of_concat(graph_, node, 0).rows}, n);
    if (is_new) return false;
    ValueId first = graph_.nodes[known->second].outputs[0];
    bool is_there = views_[known->second] && parts_.add(node.outputs[0], parts_.of(first));
    if (is_there) same_[node.outputs[0]] = first;
    return is_there;
  }

  // Does a kernel make it, in memory of its own, and nobody else wants it elsewhere?
  bool can_move(ValueId value) const {
    u32 maker = makers_[parts_.of(value).memory];
    return maker != kNone && !copied_[maker] && !is_copied_value(value) && parts_.is_whole(value);
  }
  bool has_memory_of(ValueId a, ValueId b) const { return memory_of(a) == memory_of(b); }

  // Is it read by one node alone, which reads it where it writes, or moves elements?
  bool is_taken_in(ValueId value) const {
    if (!has_one_reader(value)) return false;
    u32 reader = readers_[value][0];
    return !is_view(graph_, graph_.nodes[reader]) && graph_.nodes[reader].op != "concat" && !forms_[reader].has_reuse;
  }

  // A node that reads what another group made at the places where it writes itself, joins that group: its result never
  // goes through memory. Products are preferred.
  void join_producer(u32 n) {
    if (forms_[n].has_reduction || graph_.nodes[n].outputs.size() != 1) return;
    for (bool wants_reduction : {true, false}) {
      for (std::size_t i = 0; i < graph_.nodes[n].inputs.size() && group_[n] == kNone; ++i) {
        ValueId operand = graph_.nodes[n].inputs[i];
        u32 maker = makers_[operand];
        if (maker == kNone || group_[maker] == kNone || !forms_[n].same_place[i] || !has_one_reader(operand)) continue;
        if (graph_.nodes[maker].outputs.size() != 1 || has_reduction(group_[maker]) != wants_reduction) continue;
        group_[n] = group_[maker];
      }
    }
  }

  // A result with several readers stays in its group where all that is made of it element by element comes together in
  // one value, as x and sigmoid(x) in x * sigmoid(x): these nodes join the group.
  void claim_readers(u32 n) {
    if (graph_.nodes[n].outputs.size() != 1 || has_one_reader(graph_.nodes[n].outputs[0])) return;
    std::set<ValueId> made{graph_.nodes[n].outputs[0]};
    std::set<u32> pending, claimed;
    for (ValueId next = *made.begin();;) {
      if (is_output_.count(next) > 0 || claimed.size() > kMostClaimed) return;
      pending.insert(readers_[next].begin(), readers_[next].end());
      if (pending.empty()) return;
      u32 first = *pending.begin();
      pending.erase(pending.begin());
      if (!can_join(first, made, group_[n])) return;
      claimed.insert(first);
      next = graph_.nodes[first].outputs[0];
      made.insert(next);
      if (pending.empty()) break;
    }
    for (u32 member : claimed) group_[member] = group_[n];
  }

  // Is it element by element in these values, and no other group's?
  bool can_join(u32 n, const std::set<ValueId>& made, u32 group) const {
    const Node& node = graph_.nodes[n];
    if (group_[n] != kNone && group_[n] != group) return false;
    if (views_[n] || copied_[n] || forms_[n].has_reduction || node.outputs.size() != 1) return false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (made.count(node.inputs[i]) > 0 && !forms_[n].same_place[i]) return false;
    }
    return true;
  }

  bool has_reduction(u32 group) const {
    return std::ranges::any_of(members_[group], [&](u32 n) { return forms_[n].has_reduction; });
  }
  bool only_moves(u32 group) const {
    return std::ranges::all_of(members_[group], [&](u32 n) { return forms_[n].is_movement; });
  }

  // Groups without reductions whose only reader is this node come into its own: into a product only what moves
  // elements, since the rest would be computed again for each use.
  void take_in_operands(u32 n) {
    for (ValueId operand : graph_.nodes[n].inputs) {
      u32 maker = makers_[operand];
      if (maker == kNone || group_[maker] == kNone || group_[maker] == group_[n] || !has_one_reader(operand)) continue;
      u32 other = group_[maker];
      if (has_reduction(other) || graph_.nodes[maker].outputs.size() != 1) continue;
      if (forms_[n].has_reuse && !only_moves(other)) continue;
      take_in_group(n, other);
    }
  }
  void take_in_group(u32 n, u32 other) {
    for (u32 member : members_[other]) group_[member] = group_[n];
    std::vector<u32>& own = members_[group_[n]];
    own.insert(own.end(), members_[other].begin(), members_[other].end());
    members_[other].clear();
  }

  // A product of rows that another product made and that were reduced in between, as softmax does: all of it becomes
  // the group of this product, if nobody else reads what is in between.
  void take_in_rows(u32 n) {
    if (!is_product_of_results(n)) return;
    for (std::size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i) {
      std::optional<u32> stages = group_of_rows(n, i);
      if (!stages || *stages == group_[n]) continue;
      std::optional<u32> first = product_behind(*stages);
      if (!first) continue;
      take_in_group(n, *first);
      take_in_group(n, *stages);
      return;
    }
  }

  // Constants are packed for a whole product: with tiles of its own it is faster than with those of another one.
  bool is_product_of_results(u32 n) const {
    const Node& node = graph_.nodes[n];
    return forms_[n].has_reuse && node.inputs.size() == 2 && node.op != "grid_sample" &&
           std::ranges::none_of(node.inputs, [&](ValueId v) { return is_constant(v); });
  }
  // The group that makes an operand, if it is read in the row of the result alone, by this node alone, and fits.
  std::optional<u32> group_of_rows(u32 n, std::size_t operand) const {
    ValueId value = graph_.nodes[n].inputs[operand];
    const OperandType& type = graph_.values[value].type;
    u32 maker = makers_[value];
    if (!forms_[n].same_row[operand] || !has_one_reader(value) || maker == kNone || group_[maker] == kNone)
      return std::nullopt;
    if (type.shape.back() * bytes_of(type.dtype) > shared_row_bytes_) return std::nullopt;
    return group_[maker];
  }
  // Stages of rows read one product's result, and nothing else that was not there before.
  std::optional<u32> product_behind(u32 stages) const {
    if (!has_reduction(stages)) return std::nullopt;
    std::optional<u32> found;
    for (u32 n : members_[stages]) {
      if (forms_[n].has_reuse) return std::nullopt;
      for (std::size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i) {
        u32 maker = makers_[graph_.nodes[n].inputs[i]];
        bool is_inside = maker != kNone && group_[maker] == stages;
        if (is_inside && !forms_[n].same_row[i]) return std::nullopt;
        std::optional<u32> group = is_inside ? std::nullopt : group_of_rows(n, i);
        if (group && is_only_a_product(*group)) found = group;
      }
    }
    return found;
  }
  bool is_only_a_product(u32 group) const {
    u32 reductions = 0, products = 0;
    for (u32 n : members_[group]) {
      reductions += forms_[n].has_reduction;
      products += is_product_of_results(n);
    }
    return reductions == 1 && products == 1;
  }

  // With the nodes that it computes for itself.
  Group group_of(const std::vector<u32>& members) {
    std::set<u32> nodes;
    for (u32 n : members) add_copied(n, nodes);
    Group group;
    group.nodes.assign(nodes.begin(), nodes.end());
    read_values(group);
    std::vector<std::string> names;
    for (u32 n : group.nodes) {
      const Node& node = graph_.nodes[n];
      if (node.op != "broadcast" && !is_widening(graph_, node)) names.push_back(node.op);
    }
    group.outputs = graph_.nodes[group.nodes.back()].outputs;
    if (names.empty()) names.push_back("broadcast");
    if (names.size() > kMostNames) names.resize(kMostNames);
    group.name = join(names, "_");
    for (const std::vector<ValueId>* values : {&group.inputs, &group.constants, &group.outputs}) {
      for (ValueId value : *values) group.places.push_back(parts_.of(value));
    }
    return group;
  }

  Group copy_of(u32 concat, std::size_t operand) const {
    const Node& node = graph_.nodes[concat];
    ValueId from = node.inputs[operand], to = node.outputs[0];
    Group group{
        .name = "copy", .nodes = {}, .inputs = {}, .constants = {}, .outputs = {to}, .places = {}, .copied = operand};
    std::set<u32> nodes;
    if (is_copied_value(from)) add_copied(makers_[from], nodes);
    group.nodes.assign(nodes.begin(), nodes.end());
    group.nodes.push_back(concat);
    read_values(group);
    for (const std::vector<ValueId>* values : {&group.inputs, &group.constants}) {
      for (ValueId value : *values) group.places.push_back(parts_.of(value));
    }
    std::optional<Part> place = composed(parts_.of(to), elements_of(graph_.values[to].type),
                                         part_of_concat(graph_, node, operand), elements_of(graph_.values[from].type));
    TW_CHECK(place, "a copy without a place");
    group.places.push_back(*place);
    return group;
  }

  // What the nodes of a group read and do not make.
  void read_values(Group& group) const {
    std::set<ValueId> made;
    for (u32 n : group.nodes) {
      const Node& node = graph_.nodes[n];
      bool is_copy = group.copied && n == group.nodes.back();
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        ValueId input = node.inputs[i];
        std::vector<ValueId>& operands = graph_.values[memory_of(input)].data ? group.constants : group.inputs;
        bool is_read = !is_copy || i == *group.copied;
        if (is_read && made.count(input) == 0 && std::ranges::count(operands, input) == 0) operands.push_back(input);
      }
      made.insert(node.outputs.begin(), node.outputs.end());
    }
  }

  void add_copied(u32 n, std::set<u32>& nodes) const {
    if (!nodes.insert(n).second) return;
    for (ValueId input : graph_.nodes[n].inputs) {
      if (is_copied_value(input)) add_copied(makers_[input], nodes);
    }
  }

  ValueId memory_of(ValueId value) const { return parts_.of(value).memory; }

  const Graph& graph_;
  bool in_place_;
  i64 shared_row_bytes_;
  Parts parts_;
  std::vector<u32> makers_;  // the node that makes a value
  std::vector<std::vector<u32>> readers_;
  std::vector<NodeForm> forms_;
  std::vector<bool> is_constant_, copied_, views_;
  std::set<ValueId> is_output_;
  std::vector<u32> group_;  // of a node
  std::vector<std::vector<u32>> members_;
  std::vector<std::pair<u32, std::size_t>> copies_;              // of a concatenation, an operand
  std::map<std::pair<std::vector<ValueId>, i64>, u32> concats_;  // by operands, and rows of each
  std::map<ValueId, ValueId> same_;                              // the first one of equal concatenations
};

}  // namespace

FusedGraph fuse(const Graph& graph, InPlace in_place, i64 shared_row_bytes) {
  return Fusion(graph, in_place, shared_row_bytes).run();
}

OwnedProgram program_of(const Graph& graph, const Group& group) {
  te::Definition definition(group.name);
  std::map<ValueId, te::Tensor> tensors;
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    const OperandType& type = graph.values[group.inputs[i]].type;
    tensors[group.inputs[i]] = definition.input(cat("X", i), type.dtype, type.shape);
  }
  for (std::size_t i = 0; i < group.constants.size(); ++i) {
    const OperandType& type = graph.values[group.constants[i]].type;
    tensors[group.constants[i]] = definition.constant(cat("W", i), type.dtype, type.shape);
  }
  Diagnostics diagnostics(*operators().source);
  for (u32 n : group.nodes) {
    const Node& node = graph.nodes[n];
    std::vector<te::Tensor> operands;
    bool is_output = n == group.nodes.back(), is_copy = is_output && group.copied;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_copy || i == *group.copied) operands.push_back(tensors.at(node.inputs[i]));
    }
    auto made = is_copy
                    ? add_workload(definition, operators(), "copy", {}, operands, true, diagnostics)
                    : add_workload(definition, operators(), node.op, node.arguments, operands, is_output, diagnostics);
    if (!made) refused(diagnostics.render());
    for (std::size_t i = 0; i < made->size(); ++i) tensors[node.outputs[i]] = (*made)[i];
  }
  return definition.finish();
}

std::vector<Pitch> pitches_of(const Graph& graph, const Group& group) {
  std::vector<ValueId> values = group.inputs;
  values.insert(values.end(), group.constants.begin(), group.constants.end());
  values.insert(values.end(), group.outputs.begin(), group.outputs.end());
  if (group.copied) values.back() = graph.nodes[group.nodes.back()].inputs[*group.copied];
  std::vector<Pitch> pitches;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Part& part = group.places[i];
    if (part.rows == 1) continue;
    std::optional<i64> axis = axis_of_rows(graph.values[values[i]].type.shape, part.rows);
    TW_CHECK(axis, "rows that are none of a value");
    pitches.push_back({i, *axis, part.pitch});
  }
  return pitches;
}

}  // namespace tw::graph
