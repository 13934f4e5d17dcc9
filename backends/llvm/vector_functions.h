// exp, log, tanh, erf, sigmoid of f32 vectors as inline LLVM code, from the tables of backends/vector_math.h.
// Any number of lanes, one included. Errors and special values are stated there.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include "dsl/ir/nodes.h"

namespace tw::codegen {

class VectorFunctions {
 public:
  // `has_scalef`: the machine multiplies vectors of 16 lanes by powers of two (AVX-512).
  VectorFunctions(llvm::IRBuilder<>& builder, bool has_scalef) : b_(builder), has_scalef_(has_scalef) {}

  // `x` holds f32 lanes. Null if `function` is not one of ours.
  llvm::Value* call(Function function, llvm::Value* x);

 private:
  // What is known of an argument of exp: nothing; that it is no larger than 0; that it and the result are far from
  // where a float ends.
  enum class Range { Any, Negative, Moderate };
  llvm::Value* exp(llvm::Value* x, Range range = Range::Any);
  llvm::Value* log(llvm::Value* x);
  llvm::Value* tanh(llvm::Value* x);
  llvm::Value* erf(llvm::Value* x);
  llvm::Value* sigmoid(llvm::Value* x);

  llvm::Value* number(llvm::Value* like, double value);
  llvm::Type* int_type(llvm::Value* like);
  llvm::Value* bits(llvm::Value* like, u32 value);  // the same lanes of i32
  llvm::Value* polynomial(llvm::Value* x, Array<float> highest_first);
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  llvm::Value* as_int(llvm::Value* x);
  llvm::Value* as_float(llvm::Value* x, llvm::Value* like);
  llvm::Value* abs(llvm::Value* x);
  llvm::Value* with_sign_of(llvm::Value* magnitude, llvm::Value* sign);
  llvm::Value* smaller(double bound, llvm::Value* x);  // NaN for NaN
  llvm::Value* larger(double bound, llvm::Value* x);
  llvm::Value* power_of_two(llvm::Value* exponent, llvm::Value* like);
  llvm::Value* scalef(llvm::Value* x, llvm::Value* exponent);

  llvm::IRBuilder<>& b_;
  bool has_scalef_;
};

}  // namespace tw::codegen
