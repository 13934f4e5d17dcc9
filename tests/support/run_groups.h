// A fused graph by the interpreter.
#pragma once
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "graph/fusion.h"

namespace tw::test {

// Every group, each into the memory that it is for; the outputs of the graph.
inline std::vector<HostArray> run_groups(const graph::Graph& graph, const graph::FusedGraph& fused,
                                         const std::vector<HostArray>& inputs) {
  std::vector<std::optional<HostArray>> memory(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) memory[graph.inputs[i]] = inputs[i];
  auto array_of = [&](graph::ValueId value) {
    graph::ValueId root = fused.memory[value];
    HostArray array = graph.values[root].data ? *graph.values[root].data : memory[root].value();
    array.shape = graph.values[value].type.shape;
    return array;
  };
  for (const graph::Group& group : fused.groups) {
    OwnedProgram owned = program_of(graph, group);
    std::vector<HostArray> arrays;
    for (graph::ValueId input : group.inputs) arrays.push_back(array_of(input));
    for (graph::ValueId constant : group.constants) arrays.push_back(array_of(constant));
    for (graph::ValueId output : group.outputs)
      arrays.push_back(HostArray::zeros(graph.values[output].type.dtype, graph.values[output].type.shape));
    std::string error = interpret(owned.program, arrays);
    EXPECT_EQ(error, "") << group.name;
    for (std::size_t i = 0; i < group.outputs.size(); ++i)
      memory[group.outputs[i]] = std::move(arrays[group.inputs.size() + group.constants.size() + i]);
  }
  std::vector<HostArray> out;
  for (graph::ValueId output : graph.outputs) out.push_back(array_of(output));
  return out;
}

}  // namespace tw::test
