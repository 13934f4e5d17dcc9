// A product of a batch with one matrix that a broadcast repeats becomes a product of two matrices, with all rows of the
// batch in the left one. What follows a product element by element is computed on the product's rows, also where a
// reshape parts these into several dimensions and another one joins them for the next product: the import makes such
// reshapes, and models have them. A reshape between a product and its epilogue would keep these in two kernels.
// A convolution of single pixels is such a product, too: tiles of its rows go on over the ends of an image's rows.
#include <algorithm>
#include <optional>

#include "graph/node_form.h"
#include "graph/passes/passes.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;

class JoinRows {
 public:
  explicit JoinRows(const Graph& graph)
      : graph_(graph), copy_(graph), rows_(graph.values.size()), makers_(makers_of(graph)) {}

  Graph run() {
    for (const Node& node : graph_.nodes) {
      if (std::optional<ValueId> matrix = common_matrix(node)) {
        rows_[node.outputs[0]] = copy_.add("matmul", node.arguments, {rows(node.inputs[0]), whole(*matrix)},
                                           graph_.values[node.outputs[0]].name);
      } else if (is_of_pixels(node)) {
        rows_[node.outputs[0]] = copy_.add("matmul", types_of(node), {rows(node.inputs[0]), matrix_of(node.inputs[1])},
                                           graph_.values[node.outputs[0]].name);
      } else if (parts_rows(node)) {
        rows_[node.outputs[0]] = whole(node.inputs[0]);
      } else if (node.op == "reshape" && rows_[node.inputs[0]] && is_rows_of(node.outputs[0], node.inputs[0])) {
        copy_.set(node.outputs[0], *rows_[node.inputs[0]]);
      } else if (goes_on(node)) {
        std::vector<ValueId> operands;
        for (ValueId input : node.inputs) operands.push_back(shape(input).empty() ? whole(input) : rows(input));
        rows_[node.outputs[0]] = copy_.add(node.op, node.arguments, operands, graph_.values[node.outputs[0]].name);
      } else {
        for (ValueId input : node.inputs) whole(input);
        copy_.copy(node);
      }
    }
    for (ValueId output : graph_.outputs) whole(output);
    return copy_.finish();
  }

 private:
  const Ints& shape(ValueId value) const { return graph_.values[value].type.shape; }

  // The right operand of a product with several dimensions of rows, if it is the same matrix for all of them.
  std::optional<ValueId> common_matrix(const Node& node) const {
    if (node.op != "matmul" || shape(node.outputs[0]).size() < 3) return std::nullopt;
    const Node* maker = makers_[node.inputs[1]];
    if (!maker || maker->op != "broadcast" || shape(maker->inputs[0]).size() != 2) return std::nullopt;
    const Ints &matrix = shape(maker->inputs[0]), &wide = shape(node.inputs[1]);
    bool is_whole = std::equal(matrix.begin(), matrix.end(), wide.end() - 2);
    return is_whole ? std::optional(maker->inputs[0]) : std::nullopt;
  }

  // A convolution, channels last, whose windows are the pixels.
  bool is_of_pixels(const Node& node) const {
    if (node.op != "conv_last" || integer(node.arguments, "groups") != 1) return false;
    auto all_are = [&](const char* name, i64 wanted) {
      return std::ranges::all_of(*integers(node.arguments, name), [&](i64 value) { return value == wanted; });
    };
    const Ints& window = shape(node.inputs[1]);
    bool is_pixel = std::all_of(window.begin() + 2, window.end(), [](i64 extent) { return extent == 1; });
    return is_pixel && all_are("strides", 1) && all_are("before", 0) && all_are("after", 0);
  }

  // Those of a product's arguments that a convolution has, too.
  static WorkloadArguments types_of(const Node& node) {
    WorkloadArguments types;
    for (const WorkloadArgument& argument : node.arguments) {
      if (argument.name == "acc" || argument.name == "to") types.push_back(argument);
    }
    return types;
  }

  // Weights [outputs, inputs, 1, ...] as the right operand of a product.
  ValueId matrix_of(ValueId weights) {
    const Ints& all = shape(weights);
    const std::string& name = graph_.values[weights].name;
    ValueId matrix = copy_.add("reshape", {{"R", Ints{all[0], all[1]}}}, {whole(weights)}, name);
    return copy_.add("transpose", {{"order", Ints{1, 0}}}, {matrix}, name);
  }

  // Has the first value the rows of the second one, as a matrix?
  bool is_rows_of(ValueId matrix, ValueId value) const {
    return shape(matrix).size() == 2 && shape(value).size() > 2 && shape(matrix)[1] == shape(value).back();
  }
  bool parts_rows(const Node& node) const {
    return node.op == "reshape" && is_rows_of(node.inputs[0], node.outputs[0]);
  }

  bool goes_on(const Node& node) const {
    if (node.outputs.size() != 1 || shape(node.outputs[0]).size() < 3) return false;
    bool has_rows = std::ranges::any_of(node.inputs, [&](ValueId input) { return rows_[input].has_value(); });
    return has_rows && form_of(graph_, node).is_elementwise;
  }

  // A value as rows of its last dimension.
  ValueId rows(ValueId value) {
    if (rows_[value]) return *rows_[value];
    Ints wanted{1, shape(value).back()};
    for (i64 extent : shape(value)) wanted[0] *= extent;
    wanted[0] /= wanted[1];
    const Node* maker = makers_[value];
    // What is the same in all rows.
    if (maker && maker->op == "broadcast") {
      const Ints& own = shape(maker->inputs[0]);
      bool is_row = own.empty() || std::all_of(own.begin(), own.end() - 1, [](i64 extent) { return extent == 1; });
      if (is_row) {
        ValueId source = whole(maker->inputs[0]);
        if (own.size() > 1)
          source = copy_.add("reshape", {{"R", Ints{own.back()}}}, {source}, graph_.values[value].name);
        return copy_.add("broadcast", {{"R", wanted}}, {source}, graph_.values[value].name);
      }
    }
    return copy_.add("reshape", {{"R", wanted}}, {whole(value)}, graph_.values[value].name);
  }

  ValueId whole(ValueId value) {
    if (!copy_.has(value) && rows_[value])
      copy_.set(value, copy_.add("reshape", {{"R", shape(value)}}, {*rows_[value]}, graph_.values[value].name));
    return copy_.now(value);
  }

  const Graph& graph_;
  GraphCopy copy_;
  std::vector<std::optional<ValueId>> rows_;  // of a value of the old graph, as rows
  std::vector<const Node*> makers_;
};

}  // namespace

Graph join_rows(const Graph& graph) { return JoinRows(graph).run(); }

}  // namespace tw::graph
