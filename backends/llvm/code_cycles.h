// Cycles of machine code, estimated without running it: how often each block runs follows from trip counts, what it
// issues from its instructions, with those that save registers. All loads hit the first cache. It ranks kernels of one
// task. Used by LlvmCompiler.
#pragma once
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

namespace tw::codegen {

// Cycles of one core for a call of `function`, with what it calls in the module. The module cannot be used afterwards:
// code generation changes it.
double code_cycles(llvm::Module& module, llvm::StringRef function, llvm::TargetMachine& machine);

}  // namespace tw::codegen
