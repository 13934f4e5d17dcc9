// A graph by kernels: each node's program as it is written, compiled, one after the other.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "dsl/base/text.h"
#include "dsl/passes/lower.h"
#include "dsl/text/compose.h"
#include "graph/graph.h"
#include "runtime/measure/object_loader.h"
#include "tests/support/aligned.h"

namespace tw::graph::test {

// Runs a program that packs no constants on arrays, one for each parameter; or why it cannot.
inline std::string run_compiled(Arena& arena, const Program& program, std::vector<HostArray>& arrays,
                                const LoweringOptions& options = {}, const CodegenTarget& target = {}) {
  Result<LoweredProgram> lowered = lower(arena, program, options);
  if (!lowered) return to_string(lowered.rejected());
  Result<LlvmCompiler> compiler = LlvmCompiler::create(target);
  compiler->set_verify(true);
  Result<Kernel> kernel = compiler->compile(*lowered, "op");
  if (!kernel) return to_string(kernel.rejected());
  std::string error;
  LoadedObject loaded = load_object(kernel->code, error);
  if (!error.empty()) return error;
  std::vector<Aligned<u8>> copies;
  std::vector<void*> pointers;
  for (const HostArray& array : arrays) {
    copies.emplace_back(array.bytes.size());
    std::copy(array.bytes.begin(), array.bytes.end(), copies.back().begin());
  }
  for (Aligned<u8>& copy : copies) pointers.push_back(copy.data());
  Aligned<u8> scratch(static_cast<std::size_t>(kernel->manifest.scratch_bytes(1)) + 1);
  if (loaded.run("op")(pointers.data(), scratch.data(), nullptr, nullptr) != 0) return "the kernel fails";
  for (std::size_t i = 0; i < arrays.size(); ++i)
    std::copy(copies[i].begin(), copies[i].end(), arrays[i].bytes.begin());
  return "";
}

// As evaluate().
inline std::optional<std::vector<HostArray>> evaluate_compiled(const Graph& graph, const std::vector<HostArray>& inputs,
                                                               std::string& error) {
  std::vector<std::optional<HostArray>> arrays(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) arrays[graph.inputs[i]] = inputs[i];
  auto array_of = [&](ValueId value) { return graph.values[value].data ? *graph.values[value].data : *arrays[value]; };
  for (const Node& node : graph.nodes) {
    te::Definition definition(node.op);
    std::vector<te::Tensor> tensors;
    std::vector<HostArray> operands;
    for (ValueId input : node.inputs) {
      operands.push_back(array_of(input));
      tensors.push_back(definition.input(cat("X", tensors.size()), operands.back().dtype, operands.back().shape));
    }
    Diagnostics diagnostics(*operators().source);
    if (!add_workload(definition, operators(), node.op, node.arguments, tensors, true, diagnostics))
      return error = diagnostics.render(), std::nullopt;
    OwnedProgram program = definition.finish();
    for (std::size_t i = operands.size(); i < program.program.params.size(); ++i)
      operands.push_back(HostArray::like(program.program.params[i].buffer));
    error = run_compiled(*program.arena, program.program, operands);
    if (!error.empty()) return error = cat(node.op, ": ", error), std::nullopt;
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      arrays[node.outputs[i]] = std::move(operands[node.inputs.size() + i]);
  }
  std::vector<HostArray> out;
  for (ValueId output : graph.outputs) out.push_back(array_of(output));
  return out;
}

}  // namespace tw::graph::test
