// exp, log, tanh, erf, sigmoid of f32 vectors as inline LLVM code, from the tables of backends/vector_math.h.
// Any number of lanes, one included. Errors and special values are stated there.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include <functional>

#include "dsl/ir/nodes.h"

namespace tw::codegen {

class VectorFunctions {
 public:
  // `has_table`: a register holds 16 lanes, from which an instruction picks by lanes of another one (AVX-512).
  VectorFunctions(llvm::IRBuilder<>& builder, bool has_table) : b_(builder), has_table_(has_table) {}

  // `x` holds f32 lanes. Null if `function` is not one of ours.
  llvm::Value* call(Function function, llvm::Value* x);
  // a * sigmoid(x), 1 + tanh(x) and 1 + erf(x), of f32 lanes, with fewer operations than one after the other.
  llvm::Value* times_sigmoid(llvm::Value* a, llvm::Value* x);
  llvm::Value* one_plus_tanh(llvm::Value* x);
  llvm::Value* one_plus_erf(llvm::Value* x);

 private:
  // What is known of an argument of exp: nothing; that it is no larger than 0; that it and the result are far from
  // where a float ends.
  enum class Range { Any, Negative, Moderate };
  llvm::Value* exp(llvm::Value* x, Range range = Range::Any);
  llvm::Value* exp_of_negative(llvm::Value* x);  // exp(-x)
  llvm::Value* exp_by_table(llvm::Value* x, double sign);
  llvm::Value* by_sixteens(llvm::Value* x, const std::function<llvm::Value*(llvm::Value*)>& function);
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

  llvm::IRBuilder<>& b_;
  bool has_table_;
};

}  // namespace tw::codegen
