// Graph: a network as values and the operators between them. Every operator is a workload of graph/operators; its
// arguments are attributes, and the shapes and types of its results follow from the text. Immutable once it is built.
// Nothing here is scheduled or compiled, and nothing knows where a graph came from.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/interpreter.h"
#include "dsl/text/compose.h"

namespace tw::graph {

using ValueId = u32;  // position in Graph::values

struct Value {
  std::string name;  // unique in its graph
  OperandType type;
  std::shared_ptr<const HostArray> data;  // of a constant, else null
};

struct Node {
  std::string op;  // a workload of operators()
  WorkloadArguments arguments;
  std::vector<ValueId> inputs, outputs;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;  // each after those that it reads
  std::vector<ValueId> inputs, outputs;
  std::vector<std::string> output_names;  // one for each output
};

// graph/operators/*.tw as one module, parsed once. Operands are of any rank; what an operand's shape or type says is no
// attribute.
const WorkloadModule& operators();
std::string operators_text();  // of all files, in order

i64 elements_of(const OperandType& type);
inline i64 bytes_of(const OperandType& type) { return elements_of(type) * bytes_of(type.dtype); }
// The node that makes each value; null for inputs and constants.
std::vector<const Node*> makers_of(const Graph& graph);
// Ends the program: an operator does not take what a pass, which knows it, gives it.
[[noreturn]] void refused(const std::string& why);
// A list among the arguments of a node; null if it has none of that name.
const std::vector<i64>* integers(const WorkloadArguments& arguments, const std::string& name);
// A number among them; 0 if there is none of that name.
i64 integer(const WorkloadArguments& arguments, const std::string& name);
// The program of one node on operands X0, X1, ...; nothing, and why in `error`, if the operator does not take them.
std::optional<OwnedProgram> program_of(const Graph& graph, const Node& node, std::string& error);

// Steps of the interpreter that computing the constants of one graph may take; they take seconds.
inline constexpr i64 kMostFoldingSteps = 20'000'000;

// Builds a graph from its inputs on.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name, i64 most_folding_steps = kMostFoldingSteps)
      : most_folding_steps_(most_folding_steps) {
    graph_.name = std::move(name);
  }

  // A name that is taken, or empty, becomes another one.
  ValueId input(const std::string& name, OperandType type);
  ValueId constant(const std::string& name, HostArray data);
  ValueId constant(const std::string& name, std::shared_ptr<const HostArray> data);
  void output(ValueId value, const std::string& name);
  // The results of an operator. Where all that it reads is constant they are constants, as long as they are small and
  // the whole graph has not taken too long to compute: what shapes are made of. Nothing, and why in `error`, if the
  // operator does not take this.
  std::optional<std::vector<ValueId>> add(const std::string& op, WorkloadArguments arguments,
                                          const std::vector<ValueId>& inputs, const std::string& name,
                                          std::string& error);

  const OperandType& type(ValueId value) const { return graph_.values[value].type; }
  // The data of a constant, else null.
  const HostArray* data(ValueId value) const { return graph_.values[value].data.get(); }
  std::size_t node_count() const { return graph_.nodes.size(); }
  Graph finish() { return std::move(graph_); }

 private:
  ValueId value(const std::string& name, OperandType type);

  Graph graph_;
  i64 most_folding_steps_;
  i64 folding_steps_ = 0;             // of the interpreter, so far
  std::map<std::string, int> names_;  // how often a name was asked for
};

// Copies a graph, node after node, for passes that change some of them. Constants are copied when they are asked for.
class GraphCopy {
 public:
  explicit GraphCopy(const Graph& from);

  // What stands for a value of the old graph. It is a constant, an input, or was set.
  ValueId now(ValueId old);
  bool has(ValueId old) const { return now_[old].has_value(); }
  void set(ValueId old, ValueId made) { now_[old] = made; }
  // A node of the old graph as it is.
  void copy(const Node& node);
  // The only result of a new operator, which must take these operands.
  ValueId add(const std::string& op, WorkloadArguments arguments, const std::vector<ValueId>& inputs,
              const std::string& name);
  GraphBuilder& builder() { return builder_; }
  // With the outputs of the old graph.
  Graph finish();

 private:
  const Graph& from_;
  GraphBuilder builder_;
  std::vector<std::optional<ValueId>> now_;
};

// One line for each input, constant and node; for people and tests.
std::string to_string(const Graph& graph);

// The outputs by the interpreter, slowly; one array for each input, in order. Nothing, and why in `error`, if an
// operator cannot be computed, as for an index out of bounds, or if all together take more than `most_steps`.
std::optional<std::vector<HostArray>> evaluate(const Graph& graph, const std::vector<HostArray>& inputs,
                                               std::string& error, i64 most_steps = i64{1} << 40);

}  // namespace tw::graph
