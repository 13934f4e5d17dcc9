// Cycles of machine code, estimated without running it: how often each block runs follows from trip counts, what it
// issues from its instructions, with those that save registers. All loads hit the first cache. It ranks kernels of one
// task. Used by LlvmCompiler.
#pragma once
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

namespace tw::codegen {

// Of one call of the module's function of this name, and of all that it calls there, on one core. Generates code, after
// which the module is of no more use.
double code_cycles(llvm::Module& module, llvm::StringRef function, llvm::TargetMachine& machine);

}  // namespace tw::codegen
