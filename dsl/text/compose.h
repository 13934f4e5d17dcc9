// Several workloads as one program, each reading what earlier ones made: the program of operators that are fused.
//
//   te::Definition d("dense_relu");
//   te::Tensor X = d.input("X", DType::F32, {64, 512}), W = d.constant("W", DType::F32, {512, 256});
//   auto D = add_workload(d, library, "dense", {}, {X, W}, false, diagnostics);
//   auto Y = add_workload(d, library, "elementwise_relu", {}, {(*D)[0]}, true, diagnostics);
//   OwnedProgram program = d.finish();
#pragma once
#include "dsl/te/te.h"
#include "dsl/text/workload.h"

namespace tw {

struct OperandType {
  DType dtype;
  std::vector<i64> shape;
};

// `arguments` and what the operands say about those that it leaves out: operand n is the n-th input or const of the
// workload, and where a dimension or the element type of that is the bare name of a parameter, the operand has its
// value. A list of integers takes the dimensions that are left. Unchanged where nothing can be told: check_call says
// what is missing.
WorkloadArguments with_inferred(const WorkloadModule& module, const std::string& workload, WorkloadArguments arguments,
                                const std::vector<OperandType>& operands);

// Appends the stages of a workload, whose inputs and constants are `operands`. Its outputs; they are outputs of the
// program too if `is_output`. Nothing after an error: operands of other shapes or types, and what instantiate()
// reports. The definition may then hold a part of the stages.
std::optional<std::vector<te::Tensor>> add_workload(te::Definition& definition, const WorkloadModule& module,
                                                    const std::string& workload, const WorkloadArguments& arguments,
                                                    const std::vector<te::Tensor>& operands, bool is_output,
                                                    Diagnostics& diagnostics);

}  // namespace tw
