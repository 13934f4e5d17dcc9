// A fused graph by the interpreter.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "graph/fusion.h"

namespace tw::test {

// Every group by the interpreter, each into the memory that it is for. What nobody has written there is NaN.
inline std::vector<HostArray> run_groups(const graph::Graph& graph, const graph::FusedGraph& fused,
                                         const std::vector<HostArray>& inputs) {
  std::map<graph::ValueId, HostArray> memory;
  for (graph::ValueId value = 0; value < graph.values.size(); ++value) {
    const graph::Value& of = graph.values[value];
    HostArray& array = memory[value] = of.data ? *of.data : HostArray::zeros(of.type.dtype, of.type.shape);
    for (i64 i = 0; i < array.elements() && !of.data && is_float(array.dtype); ++i) array.set(i, NAN);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) memory[graph.inputs[i]] = inputs[i];
  auto array_of = [&](const OperandType& type, const graph::Part& part) {
    return read_part(memory.at(part.memory), part, type);
  };
  for (const graph::Group& group : fused.groups) {
    OwnedProgram owned = program_of(graph, group);
    std::vector<HostArray> arrays;
    std::size_t read = group.inputs.size() + group.constants.size();
    for (std::size_t i = 0; i < group.places.size(); ++i) {
      const Buffer* buffer = owned.program.params[i].buffer;
      OperandType type{buffer->dtype, {buffer->shape.begin(), buffer->shape.end()}};
      arrays.push_back(i < read ? array_of(type, group.places[i]) : HostArray::zeros(type.dtype, type.shape));
    }
    std::string error = interpret(owned.program, arrays);
    EXPECT_EQ(error, "") << group.name;
    for (std::size_t i = read; i < arrays.size(); ++i)
      write_part(memory.at(group.places[i].memory), group.places[i], arrays[i]);
  }
  std::vector<HostArray> out;
  for (graph::ValueId output : graph.outputs) out.push_back(array_of(graph.values[output].type, fused.parts[output]));
  return out;
}

}  // namespace tw::test
