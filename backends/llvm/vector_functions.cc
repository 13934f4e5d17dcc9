#include "backends/llvm/vector_functions.h"

#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "backends/vector_math.h"

namespace tw::codegen {

using namespace vector_math;

llvm::Value* VectorFunctions::call(Function function, llvm::Value* x) {
  switch (function) {
    case Function::Exp:
      return exp(x);
    case Function::Log:
      return log(x);
    case Function::Tanh:
      return tanh(x);
    case Function::Erf:
      return erf(x);
    case Function::Sigmoid:
      return sigmoid(x);
    default:
      return nullptr;
  }
}

llvm::Value* VectorFunctions::number(llvm::Value* like, double value) {
  return llvm::ConstantFP::get(like->getType(), value);
}

llvm::Value* VectorFunctions::bits(llvm::Value* like, u32 value) {
  return llvm::ConstantInt::get(int_type(like), value);
}

llvm::Type* VectorFunctions::int_type(llvm::Value* like) {
  if (auto* vector = llvm::dyn_cast<llvm::VectorType>(like->getType())) return llvm::VectorType::getInteger(vector);
  return b_.getInt32Ty();
}

llvm::Value* VectorFunctions::as_int(llvm::Value* x) { return b_.CreateBitCast(x, int_type(x)); }
llvm::Value* VectorFunctions::as_float(llvm::Value* x, llvm::Value* like) {
  return b_.CreateBitCast(x, like->getType());
}
llvm::Value* VectorFunctions::abs(llvm::Value* x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
llvm::Value* VectorFunctions::with_sign_of(llvm::Value* magnitude, llvm::Value* sign) {
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
}

// a * b + c: one FMA where the machine has it, because the builder's flags allow contraction.
llvm::Value* VectorFunctions::fma(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
  return b_.CreateFAdd(b_.CreateFMul(a, b), c);
}

llvm::Value* VectorFunctions::polynomial(llvm::Value* x, Array<float> highest_first) {
  llvm::Value* sum = number(x, highest_first[0]);
  for (float coefficient : highest_first.subspan(1)) sum = fma(sum, x, number(x, coefficient));
  return sum;
}

llvm::Value* VectorFunctions::exp(llvm::Value* x) {
  llvm::Value *lowest = number(x, kExpLowest), *highest = number(x, kExpHighest), *magic = number(x, kRoundMagic);
  x = b_.CreateSelect(b_.CreateFCmpOGT(lowest, x), lowest, x);  // a NaN stays
  x = b_.CreateSelect(b_.CreateFCmpOLT(highest, x), highest, x);
  llvm::Value* shifted = fma(x, number(x, kLog2E), magic);
  llvm::Value* n = b_.CreateFSub(shifted, magic);
  llvm::Value* r = fma(n, number(x, -kLn2High), x);
  r = fma(n, number(x, -kLn2Low), r);
  llvm::Value* tail = fma(polynomial(r, kExp), b_.CreateFMul(r, r), r);
  llvm::Value* mantissa = b_.CreateFAdd(tail, number(x, 1));

  llvm::Value* exponent = b_.CreateSub(as_int(shifted), as_int(magic));
  llvm::Value* half = b_.CreateAShr(exponent, bits(x, 1));
  auto power_of_two = [&](llvm::Value* e) {
    return as_float(b_.CreateShl(b_.CreateAdd(e, bits(x, 127)), bits(x, 23)), x);
  };
  return b_.CreateFMul(b_.CreateFMul(mantissa, power_of_two(half)), power_of_two(b_.CreateSub(exponent, half)));
}

llvm::Value* VectorFunctions::log(llvm::Value* x) {
  llvm::Value* is_tiny = b_.CreateFCmpOLT(x, number(x, std::numeric_limits<float>::min()));
  llvm::Value* scaled = b_.CreateSelect(is_tiny, b_.CreateFMul(x, number(x, 0x1p23)), x);
  llvm::Value* exponent = b_.CreateAShr(b_.CreateSub(as_int(scaled), bits(x, kSqrtHalfBits)), bits(x, 23));
  llvm::Value* t = as_float(b_.CreateSub(as_int(scaled), b_.CreateShl(exponent, bits(x, 23))), x);
  t = b_.CreateFSub(t, number(x, 1));
  llvm::Value* e = b_.CreateSIToFP(exponent, x->getType());
  e = b_.CreateSelect(is_tiny, b_.CreateFSub(e, number(x, 23)), e);

  llvm::Value* z = b_.CreateFMul(t, t);
  llvm::Value* y = b_.CreateFMul(b_.CreateFMul(t, z), polynomial(t, kLog));
  y = fma(e, number(x, kLn2Low), y);
  y = fma(z, number(x, -0.5), y);
  llvm::Value* result = fma(e, number(x, kLn2High), b_.CreateFAdd(t, y));

  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  llvm::Value* zero = number(x, 0);
  result = b_.CreateSelect(b_.CreateFCmpOLT(x, number(x, kInfinity)), result, x);  // inf and NaN
  result = b_.CreateSelect(b_.CreateFCmpOEQ(x, zero), number(x, -kInfinity), result);
  return b_.CreateSelect(b_.CreateFCmpOLT(x, zero), number(x, std::numeric_limits<double>::quiet_NaN()), result);
}

llvm::Value* VectorFunctions::tanh(llvm::Value* x) {
  llvm::Value *a = abs(x), *z = b_.CreateFMul(x, x), *one = number(x, 1);
  llvm::Value* small = fma(b_.CreateFMul(polynomial(z, kTanh), z), x, x);
  llvm::Value* power = exp(b_.CreateFAdd(a, a));
  llvm::Value* large = b_.CreateFSub(one, b_.CreateFDiv(number(x, 2), b_.CreateFAdd(power, one)));
  return b_.CreateSelect(b_.CreateFCmpOLT(a, number(x, kTanhSplit)), small, with_sign_of(large, x));
}

llvm::Value* VectorFunctions::erf(llvm::Value* x) {
  llvm::Value *a = abs(x), *z = b_.CreateFMul(x, x), *one = number(x, 1), *highest = number(x, kErfHighest);
  llvm::Value* small = fma(polynomial(z, kErfSmall), x, x);
  llvm::Value* t = b_.CreateSelect(b_.CreateFCmpOLT(highest, a), highest, a);
  llvm::Value* large = b_.CreateFSub(one, exp(b_.CreateFNeg(polynomial(t, kErfLarge))));
  return b_.CreateSelect(b_.CreateFCmpOLT(a, one), small, with_sign_of(large, x));
}

llvm::Value* VectorFunctions::sigmoid(llvm::Value* x) {
  llvm::Value *e = exp(b_.CreateFNeg(abs(x))), *one = number(x, 1);
  llvm::Value* top = b_.CreateSelect(b_.CreateFCmpOLT(x, number(x, 0)), e, one);
  return b_.CreateFDiv(top, b_.CreateFAdd(one, e));
}

}  // namespace tw::codegen
