// Workloads as text: parse a module of workloads, functions and epilogues, and turn one of them with arguments into a
// Program. Used by the task lists, the command and the tests. It schedules nothing; types and widening are those of
// dsl/te/te.h.
//
//   fn gelu(x) = 0.5 * x * (1 + erf(x * 0.7071067811865476))
//   workload dense_gelu(M: int, N: int, K: int, T: type = f32) {
//     doc "a dense layer"
//     require K > 0, "a message"
//     let H = M // 2                                   # integers; also another name for a buffer
//     input X: T[M, K]
//     const W: T[K, N] layout "any text", bias: T[N]   # rewritten once, outside the kernel
//     D[i: M, j: N] = sum(k: K) X[i, k] * W[k, j]      # a stage; also `sum(k: K) in f64 ..`, `D: f16[i: M, j: N] = ..`
//     if N > 1 { ... } else { ... }                    # decided by the parameters
//     output Y[i: M, j: N] = gelu(D[i, j] + bias[j])
//     tolerance 1e-4, 1e-3                             # absolute, relative
//   }
//   epilogue bias(y) { const Bias: T[channels]; return y + Bias[channel] }
//
// Reductions: sum prod max min, and argmax argmin with two results, `output At, Best[i: M] = argmax(k: K) X[i, k]`;
// only as the whole right side of a stage. Values: + - * / // %, comparisons, and or not, `if c then a else b` (only
// the chosen side is evaluated), exp log sqrt rsqrt tanh erf sigmoid abs floor ceil round (ties to even) pow min max,
// the types as conversions, lowest(T) (the identity of max), inf nan pi, and the functions of the module and of the
// library. Lists (dsl/text/lists.h) make a workload one for tensors of all ranks:
//
//   workload transpose(S: ints, order: ints, T: type = f32) {
//     input X: T[S]                                    # a list stands for several dimensions, axes or indices
//     output Y: T[i: [S[p] for p in order]] = X[[i[p] for p in inverse(order)]]
//   }
//
// In integers of shapes, lets and conditions: + - * // %, comparisons, and or not, `if then else`, min max
// ceildiv is_float(T). Functions of types: accumulator(T) is what T is summed in, result(T) is T for floats and the
// accumulator for i8, u8. In an epilogue T is the element type of the output, channels and channel are extent and axis
// of its last dimension, shape and axes stand for all of them.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dsl/base/diagnostic.h"
#include "dsl/ir/program.h"
#include "dsl/text/workload_ast.h"

namespace tw {

struct WorkloadModule {
  std::shared_ptr<const Source> source;
  std::shared_ptr<Arena> arena;
  std::vector<ast::Workload> workloads;
  std::vector<ast::FunctionText> functions;
  std::vector<ast::Epilogue> epilogues;
};

// What could be parsed; every error is in `diagnostics`, which must be about `source`.
WorkloadModule parse_workloads(const Source& source, Diagnostics& diagnostics);

// dsl/te/operators.tw, parsed once. Its functions and epilogues are known in every module.
const WorkloadModule& operator_library();

// ---- what a workload takes

struct Signature {
  struct Parameter {
    std::string name;
    ParameterKind kind = ParameterKind::Integer;
    bool required = true;
    std::string fallback;  // the default as text
  };
  std::string name, doc;
  std::vector<Parameter> parameters;
};
std::vector<Signature> signatures(const WorkloadModule& module);
struct EpilogueSignature {
  std::string name, doc;
};
std::vector<EpilogueSignature> epilogue_signatures(const WorkloadModule& module);

using ArgumentValue = std::variant<i64, DType, std::vector<i64>>;  // as ParameterKind
struct WorkloadArgument {
  std::string name;
  ArgumentValue value;
  bool operator==(const WorkloadArgument&) const = default;
};
using WorkloadArguments = std::vector<WorkloadArgument>;

// What is wrong with a call before anything is instantiated, so that a task list can point at its own line.
struct CallProblem {
  std::string argument;  // the argument or epilogue that is wrong; empty: one is missing, or the workload is unknown
  std::string message, note;
};
std::vector<CallProblem> check_call(const WorkloadModule& module, const std::string& workload,
                                    const WorkloadArguments& arguments, const std::vector<std::string>& epilogues);

// "banded(M = 512, B = 16, T = f16)".
struct WorkloadUse {
  std::string workload;
  WorkloadArguments arguments;
};
std::optional<WorkloadUse> parse_use(const Source& source, Diagnostics& diagnostics);
std::string to_string(const WorkloadUse& use);

// ---- the program

// The workload `name` of the module with these arguments, its output passed through the epilogues in order; each
// epilogue is a stage of its own name. Nothing after an error: problems of check_call have the span of the workload's
// name; a failed `require` names the values in its message. `diagnostics` must be about module.source.
std::optional<OwnedProgram> instantiate(const WorkloadModule& module, const std::string& name,
                                        const WorkloadArguments& arguments, const std::vector<std::string>& epilogues,
                                        Diagnostics& diagnostics);

// The canonical, self-contained text of an instantiated workload, as stored in databases and trace files; parse_program
// reads it.
std::string workload_text(const Program& program);

}  // namespace tw
