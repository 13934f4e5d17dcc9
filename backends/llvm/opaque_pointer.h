// Used by FunctionEmitter and BodyPressure.
#pragma once
#include <llvm/IR/IRBuilder.h>

namespace tw::codegen {

// A copy of the pointer, in a register of its own, that LLVM does not know to be equal: loads from the two stay two.
// Copies with equal numbers may be merged.
llvm::Value* opaque_copy(llvm::IRBuilderBase& builder, llvm::Value* pointer, int number);

}  // namespace tw::codegen
