#include "backends/llvm/vector_functions.h"
namespace tw::codegen {
llvm::Value* VectorFunctions::call(Function, llvm::Value*) { return nullptr; }
}
