#include "backends/llvm/vector_functions.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <limits>
#include <numeric>
#include <vector>

#include "backends/vector_math.h"

namespace tw::codegen {

using namespace vector_math;

namespace {

constexpr int kTableLanes = 16;  // one register holds the table

}  // namespace

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

// The operands of these comparisons are in the order of maxps and minps, which give the second one for a NaN.
llvm::Value* VectorFunctions::larger(double bound, llvm::Value* x) {
  llvm::Value* lowest = number(x, bound);
  return b_.CreateSelect(b_.CreateFCmpOGT(lowest, x), lowest, x);
}

llvm::Value* VectorFunctions::smaller(double bound, llvm::Value* x) {
  llvm::Value* highest = number(x, bound);
  return b_.CreateSelect(b_.CreateFCmpOLT(highest, x), highest, x);
}

// 2^exponent, which must be neither denormal nor infinite.
llvm::Value* VectorFunctions::power_of_two(llvm::Value* exponent, llvm::Value* like) {
  return as_float(b_.CreateShl(b_.CreateAdd(exponent, bits(like, 127)), bits(like, 23)), like);
}

// What `function` makes of vectors of 16 lanes, for any number of lanes.
llvm::Value* VectorFunctions::by_sixteens(llvm::Value* x, const std::function<llvm::Value*(llvm::Value*)>& function) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  if (!vector) {
    llvm::Value* lane = llvm::PoisonValue::get(llvm::FixedVectorType::get(x->getType(), kTableLanes));
    return b_.CreateExtractElement(function(b_.CreateInsertElement(lane, x, b_.getInt64(0))), b_.getInt64(0));
  }
  const int lanes = static_cast<int>(vector->getNumElements());
  std::vector<llvm::Value*> parts;
  for (int first = 0; first < lanes; first += kTableLanes) {
    std::vector<int> part(kTableLanes, llvm::PoisonMaskElem);
    std::iota(part.begin(), part.begin() + std::min(kTableLanes, lanes - first), first);
    parts.push_back(function(lanes == kTableLanes ? x : b_.CreateShuffleVector(x, part)));
  }
  llvm::Value* whole = llvm::concatenateVectors(b_, parts);
  if (lanes % kTableLanes == 0) return whole;
  std::vector<int> own(static_cast<std::size_t>(lanes));
  std::iota(own.begin(), own.end(), 0);
  return b_.CreateShuffleVector(whole, own);
}

// exp(x), or exp(-x): the sign goes into the constants. Of 16 lanes, in clamped range.
llvm::Value* VectorFunctions::exp_by_table(llvm::Value* x, double sign) {
  constexpr unsigned kAsUsual = 4;  // rounding
  llvm::Value* magic = number(x, kTableMagic);
  llvm::Value* shifted = fma(x, number(x, sign * kLog2E), magic);
  llvm::Value* n = b_.CreateFSub(shifted, magic);
  llvm::Value* r = fma(n, number(x, -sign * kTableLn2High), x);
  r = fma(n, number(x, -sign * kTableLn2Low), r);
  std::vector<llvm::Constant*> powers;
  for (float power : kTable) powers.push_back(llvm::ConstantFP::get(b_.getFloatTy(), power));
  llvm::Value* power = b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {},
                                          {llvm::ConstantVector::get(powers), as_int(shifted)});
  llvm::Value* slope = fma(fma(r, number(x, sign * kTableExp[0]), number(x, kTableExp[1])), r, number(x, sign));
  llvm::Value* mantissa = fma(b_.CreateFMul(power, r), slope, power);
  return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                            {mantissa, n, mantissa, b_.getInt16(0xffff), b_.getInt32(kAsUsual)});
}

llvm::Value* VectorFunctions::exp(llvm::Value* x, Range range) {
  if (range != Range::Moderate) x = larger(kExpLowest, x);
  if (range == Range::Any) x = smaller(kExpHighest, x);
  if (has_table_) return by_sixteens(x, [&](llvm::Value* part) { return exp_by_table(part, 1); });
  llvm::Value* magic = number(x, kRoundMagic);
  llvm::Value* shifted = fma(x, number(x, kLog2E), magic);
  llvm::Value* n = b_.CreateFSub(shifted, magic);
  llvm::Value* r = fma(n, number(x, -kLn2High), x);
  r = fma(n, number(x, -kLn2Low), r);
  llvm::Value* tail = fma(polynomial(r, kExp), b_.CreateFMul(r, r), r);
  llvm::Value* mantissa = b_.CreateFAdd(tail, number(x, 1));
  llvm::Value* exponent = b_.CreateSub(as_int(shifted), as_int(magic));
  if (range == Range::Moderate) return b_.CreateFMul(mantissa, power_of_two(exponent, x));
  llvm::Value* half = b_.CreateAShr(exponent, bits(x, 1));
  llvm::Value* rest = b_.CreateSub(exponent, half);
  return b_.CreateFMul(b_.CreateFMul(mantissa, power_of_two(half, x)), power_of_two(rest, x));
}

llvm::Value* VectorFunctions::exp_of_negative(llvm::Value* x) {
  if (!has_table_) return exp(b_.CreateFNeg(x));
  x = smaller(-kExpLowest, larger(-kExpHighest, x));
  return by_sixteens(x, [&](llvm::Value* part) { return exp_by_table(part, -1); });
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
  llvm::Value* power = exp(smaller(kTanhHighest, b_.CreateFAdd(a, a)), Range::Moderate);
  llvm::Value* large = b_.CreateFSub(one, b_.CreateFDiv(number(x, 2), b_.CreateFAdd(power, one)));
  return b_.CreateSelect(b_.CreateFCmpOLT(a, number(x, kTanhSplit)), small, with_sign_of(large, x));
}

llvm::Value* VectorFunctions::erf(llvm::Value* x) {
  llvm::Value *a = abs(x), *z = b_.CreateFMul(x, x), *one = number(x, 1);
  llvm::Value* small = fma(polynomial(z, kErfSmall), x, x);
  llvm::Value* power = exp(b_.CreateFNeg(polynomial(smaller(kErfHighest, a), kErfLarge)), Range::Moderate);
  llvm::Value* large = b_.CreateFSub(one, power);
  return b_.CreateSelect(b_.CreateFCmpOLT(a, one), small, with_sign_of(large, x));
}

llvm::Value* VectorFunctions::sigmoid(llvm::Value* x) {
  llvm::Value *e = exp(b_.CreateFNeg(abs(x)), Range::Negative), *one = number(x, 1);
  llvm::Value* top = b_.CreateSelect(b_.CreateFCmpOLT(x, number(x, 0)), e, one);
  return b_.CreateFDiv(top, b_.CreateFAdd(one, e));
}

llvm::Value* VectorFunctions::times_sigmoid(llvm::Value* a, llvm::Value* x) {
  return b_.CreateFDiv(a, b_.CreateFAdd(number(x, 1), exp_of_negative(x)));
}

llvm::Value* VectorFunctions::one_plus_tanh(llvm::Value* x) { return times_sigmoid(number(x, 2), b_.CreateFAdd(x, x)); }

llvm::Value* VectorFunctions::one_plus_erf(llvm::Value* x) {
  llvm::Value* a = smaller(kErfcHighest, abs(x));
  llvm::Value* power = exp(b_.CreateFNeg(b_.CreateFMul(polynomial(a, kErfc), a)), Range::Negative);
  llvm::Value* is_negative = b_.CreateFCmpOLT(x, number(x, 0));
  return b_.CreateSelect(is_negative, power, b_.CreateFSub(number(x, 2), power));
}

}  // namespace tw::codegen
