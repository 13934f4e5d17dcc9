#include "backends/llvm/opaque_pointer.h"

#include <llvm/IR/InlineAsm.h>

namespace tw::codegen {

llvm::Value* opaque_copy(llvm::IRBuilderBase& builder, llvm::Value* pointer, int number) {
  llvm::Type* pointer_type = builder.getPtrTy();
  llvm::FunctionType* type = llvm::FunctionType::get(pointer_type, {pointer_type, builder.getInt64Ty()}, false);
  llvm::InlineAsm* nothing = llvm::InlineAsm::get(type, "", "=r,0,i", /*hasSideEffects=*/false);
  llvm::CallInst* copy = builder.CreateCall(nothing, {pointer, builder.getInt64(static_cast<std::uint64_t>(number))});
  copy->setDoesNotAccessMemory();
  copy->setDoesNotThrow();
  return copy;
}

}  // namespace tw::codegen
