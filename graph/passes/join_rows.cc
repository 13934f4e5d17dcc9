// A product of a batch with one matrix that a broadcast repeats becomes a product of two matrices, with all rows of the
// batch in the left one. What follows a product element by element is computed on the product's rows, also where a
// reshape parts these into several dimensions and another one joins them for the next product: the import makes such
// reshapes, and models have them. A reshape between a product and its epilogue would keep these in two kernels.
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
