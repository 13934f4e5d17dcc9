// Values that pass from kernel to kernel, and weights, in 16 bits. What a kernel is follows from fusion of the graph as
// it comes: behind what each one gives stands a conversion to the narrow type, which fusion takes into it, and in front
// of what reads it one to f32, which each reader does for itself. Products read narrow operands as they are and sum in
// f32.
#include <algorithm>
#include <cmath>
#include <optional>
#include <ranges>
#include <set>

#include "dsl/base/halves.h"
#include "graph/fusion.h"
#include "graph/node_form.h"
#include "graph/passes/passes.h"

namespace tw::graph {
namespace {

// A sum or a largest element of so many is a statistic, as of a normalisation.
constexpr i64 kFewer = 8;

double largest_of(DType type) { return type == DType::BF16 ? bfloat_value(0x7f7f) : half_value(0x7bff); }

bool is_product(const Node& node) {
  return node.op == "matmul" || node.op == "conv" || node.op == "conv_last" || node.op == "conv_transposed";
}

bool is_f32(const Value& value) { return value.type.dtype == DType::F32; }

// More than a row or a column.
bool is_matrix(const Value& value) {
  return std::ranges::count_if(value.type.shape, [](i64 extent) { return extent > 1; }) > 1;
}

// Which values of a graph are stored narrow.
class NarrowValues {
 public:
  explicit NarrowValues(const Graph& graph)
      : graph_(graph),
        fused_(fuse(graph)),
        makers_(makers_of(graph)),
        is_stored_(graph.values.size()),
        is_kept_(graph.values.size()),
        is_weight_(graph.values.size()) {
    for (const Node& node : graph.nodes) forms_.push_back(form_of(graph, node));
    for (const Node& node : graph.nodes) {
      if (is_product(node)) std::ranges::for_each(node.inputs, [&](ValueId operand) { mark_weights(operand); });
      if (node.op == "gather") mark_weights(node.inputs[0]);
    }
    for (const Group& group : fused_.groups) {
      if (group.outputs.size() == 1) is_stored_[group.outputs[0]] = can_be_narrow(group);
    }
    for (ValueId output : graph.outputs)
      is_stored_[fused_.parts[output].memory] = is_weight_[fused_.parts[output].memory] = false;
    for (const Group& group : fused_.groups | std::views::reverse) keep_what_places_are_made_of(group);
    for (const Group& group : fused_.groups) {
      for (ValueId output : group.outputs) is_kept_[output] = !is_stored_[output];
    }
  }

  // Does a kernel store it, so that others read it narrow?
  bool is_stored(ValueId value) const { return is_stored_[value]; }
  // Does a kernel store it as it is?
  bool is_kept(ValueId value) const { return is_kept_[value]; }
  // A constant that is narrow.
  bool is_weight(ValueId value) const { return is_weight_[value]; }
  // Another name of what lies in memory.
  bool is_view(ValueId value) const { return fused_.parts[value].memory != value; }
  // Only moves elements of floats.
  bool is_movement(const Node& node) const {
    auto is_float_operand = [&](ValueId input) { return is_f32(graph_.values[input]); };
    return form(node).is_movement && node.outputs.size() == 1 && is_f32(graph_.values[node.outputs[0]]) &&
           std::ranges::any_of(node.inputs, is_float_operand);
  }

 private:
  const NodeForm& form(const Node& node) const { return forms_[static_cast<std::size_t>(&node - &graph_.nodes[0])]; }

  // The matrices among the constants that a value consists of.
  void mark_weights(ValueId value) {
    const Node* maker = makers_[value];
    if (!maker)
      is_weight_[value] = graph_.values[value].data && is_f32(graph_.values[value]) && is_matrix(graph_.values[value]);
    if (maker && is_movement(*maker))
      std::ranges::for_each(maker->inputs, [&](ValueId operand) { mark_weights(operand); });
  }

  bool has_product(const Group& group) const {
    return std::ranges::any_of(group.nodes, [&](u32 n) { return is_product(graph_.nodes[n]); });
  }

  bool can_be_narrow(const Group& group) const {
    if (!is_f32(graph_.values[group.outputs[0]])) return false;
    if (has_product(group)) return true;
    auto is_float = [&](ValueId value) { return is_f32(graph_.values[value]); };
    auto is_narrow_constant = [&](ValueId value) { return is_weight_[fused_.parts[value].memory]; };
    bool is_from_floats =
        std::ranges::any_of(group.inputs, is_float) || std::ranges::any_of(group.constants, is_narrow_constant);
    return is_from_floats && !is_statistic(group);
  }

  bool is_statistic(const Group& group) const {
    bool has_reduction = std::ranges::any_of(group.nodes, [&](u32 n) { return forms_[n].has_reduction; });
    i64 most = 0;
    for (ValueId input : group.inputs) most = std::max(most, elements_of(graph_.values[input].type));
    return has_reduction && elements_of(graph_.values[group.outputs[0]].type) * kFewer <= most;
  }

  // Does it make integers of floats, or read at places that are floats?
  bool makes_places(const Group& group) const {
    auto is_float_operand = [&](ValueId input) { return is_f32(graph_.values[input]); };
    return std::ranges::any_of(group.nodes, [&](u32 n) {
      const Node& node = graph_.nodes[n];
      DType made = graph_.values[node.outputs[0]].type.dtype;
      bool is_whole = !is_float(made) && made != DType::Bool;
      return node.op == "grid_sample" || (is_whole && std::ranges::any_of(node.inputs, is_float_operand));
    });
  }

  // Where a kernel gives integers or truth values, as places of elements, or what such a kernel reads, what it reads
  // stays wide. Products end this.
  void keep_what_places_are_made_of(const Group& group) {
    if (has_product(group)) return;
    bool gives_places = std::ranges::any_of(group.outputs, [&](ValueId output) {
      return !is_float(graph_.values[output].type.dtype) || leads_to_places_.contains(output);
    });
    if (!gives_places && !makes_places(group)) return;
    for (ValueId input : group.inputs) {
      is_stored_[fused_.parts[input].memory] = false;
      leads_to_places_.insert(fused_.parts[input].memory);
    }
  }

  const Graph& graph_;
  FusedGraph fused_;
  std::vector<const Node*> makers_;
  std::vector<NodeForm> forms_;
  std::vector<bool> is_stored_, is_kept_, is_weight_;
  std::set<ValueId> leads_to_places_;
};

class Narrowing {
 public:
  Narrowing(const Graph& graph, DType type)
      : graph_(graph),
        type_(type),
        values_(graph),
        copy_(graph),
        makers_(makers_of(graph)),
        wide_(graph.values.size()),
        narrow_(graph.values.size()) {}

  Graph run() {
    for (const Node& node : graph_.nodes) {
      ValueId result = node.outputs[0];
      if (values_.is_movement(node) && !values_.is_stored(result)) continue;  // as it is asked for
      if (!values_.is_movement(node) || !narrow(result)) compute(node);
      if (values_.is_stored(result) && !narrow_[result]) {
        narrow_[result] = cast(*wide_[result], type_, graph_.values[result].name);
        wide_[result].reset();
      }
    }
    for (ValueId output : graph_.outputs) copy_.set(output, wide(output));
    return copy_.finish();
  }

 private:
  ValueId cast(ValueId value, DType to, const std::string& name) {
    return copy_.add("cast", {{"to", to}}, {value}, name);
  }
  std::string wide_name(ValueId value) const { return graph_.values[value].name + "_f32"; }

  // All results of a node, in f32.
  void compute(const Node& node) {
    std::vector<ValueId> operands;
    WorkloadArguments arguments = node.arguments;
    bool has_narrow = false;
    for (ValueId input : node.inputs) {
      std::optional<ValueId> own = is_product(node) ? narrow(input) : std::nullopt;
      has_narrow |= own.has_value();
      operands.push_back(own ? *own : wide(input));
    }
    bool has_type = std::ranges::count(arguments, "to", &WorkloadArgument::name) > 0;
    if (has_narrow && !has_type) arguments.push_back({"to", DType::F32});
    std::string error;
    bool is_stored = values_.is_stored(node.outputs[0]);
    auto made =
        copy_.builder().add(node.op, arguments, operands,
                            is_stored ? wide_name(node.outputs[0]) : graph_.values[node.outputs[0]].name, error);
    if (!made) refused(error);
    for (std::size_t i = 0; i < made->size(); ++i) wide_[node.outputs[i]] = (*made)[i];
  }

  // A value in its own type.
  ValueId wide(ValueId value) {
    if (wide_[value]) return *wide_[value];
    const Node* maker = makers_[value];
    if (maker && values_.is_movement(*maker) && !values_.is_stored(value)) {
      if (values_.is_view(value) && narrow(value))
        wide_[value] = cast(*narrow(value), DType::F32, wide_name(value));
      else
        compute(*maker);
    } else if (std::optional<ValueId> stored = narrow(value)) {
      wide_[value] = cast(*stored, DType::F32, wide_name(value));
    } else {
      wide_[value] = graph_.values[value].data ? in_range(value) : copy_.now(value);
    }
    return *wide_[value];
  }

  // A value in the narrow type, if it can be had without a rounding that is not stored.
  std::optional<ValueId> narrow(ValueId value) {
    if (narrow_[value]) return narrow_[value];
    const Node* maker = makers_[value];
    if (values_.is_weight(value)) return narrow_[value] = constant(value);
    if (graph_.values[value].data && is_f32(graph_.values[value])) return exact_constant(value);
    if (!maker || !values_.is_movement(*maker) || values_.is_kept(value)) return std::nullopt;
    std::vector<ValueId> operands;
    for (ValueId input : maker->inputs) {
      bool is_float = is_f32(graph_.values[input]);
      std::optional<ValueId> own = is_float ? narrow(input) : std::nullopt;
      if (is_float && !own) return std::nullopt;
      operands.push_back(own ? *own : wide(input));
    }
    return narrow_[value] = copy_.add(maker->op, maker->arguments, operands, graph_.values[value].name);
  }

  ValueId constant(ValueId value) {
    const HostArray& from = *graph_.values[value].data;
    double largest = largest_of(type_);
    HostArray made = HostArray::zeros(type_, from.shape);
    for (i64 i = 0; i < from.elements(); ++i) {
      double x = from.get(i);
      made.set(i, std::isfinite(x) ? std::clamp(x, -largest, largest) : x);
    }
    return copy_.builder().constant(graph_.values[value].name, std::move(made));
  }

  // A small constant that loses nothing: a number that stands around or beside what is moved.
  std::optional<ValueId> exact_constant(ValueId value) {
    HostArray from = *graph_.values[value].data, made = HostArray::zeros(type_, from.shape);
    for (i64 i = 0; i < from.elements(); ++i) {
      made.set(i, from.get(i));
      bool is_same = made.get(i) == from.get(i) || std::isnan(from.get(i));
      if (!is_same) return std::nullopt;
    }
    return narrow_[value] = copy_.builder().constant(graph_.values[value].name, std::move(made));
  }

  // The lowest number of f32 stands for what is masked. Rounded to the narrow type it would be -inf, and a row of
  // nothing else no number.
  ValueId in_range(ValueId value) {
    const HostArray& from = *graph_.values[value].data;
    double largest = largest_of(type_);
    HostArray made = from;
    bool is_changed = false;
    for (i64 i = 0; is_f32(graph_.values[value]) && i < from.elements(); ++i) {
      double x = from.get(i);
      if (!std::isfinite(x) || std::abs(x) <= largest_of(DType::BF16)) continue;
      made.set(i, std::copysign(largest, x));
      is_changed = true;
    }
    return is_changed ? copy_.builder().constant(graph_.values[value].name, std::move(made)) : copy_.now(value);
  }

  const Graph& graph_;
  DType type_;
  NarrowValues values_;
  GraphCopy copy_;
  std::vector<const Node*> makers_;
  std::vector<std::optional<ValueId>> wide_, narrow_;  // of a value of the old graph
};

}  // namespace

Graph narrow_values(const Graph& graph, DType type) { return Narrowing(graph, type).run(); }

}  // namespace tw::graph
