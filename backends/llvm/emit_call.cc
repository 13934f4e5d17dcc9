// Calls of mathematical functions: our own vector code for f32, LLVM intrinsics that are one instruction, libm for the
// rest.
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <numeric>

#include "backends/llvm/emitter.h"
#include "dsl/base/check.h"

namespace tw::codegen {
namespace {

const char* libm_name(Function function) {
  switch (function) {
    case Function::Exp:
      return "exp";
    case Function::Log:
      return "log";
    case Function::Tanh:
      return "tanh";
    case Function::Erf:
      return "erf";
    case Function::Pow:
      return "pow";
    default:
      return nullptr;
  }
}

std::optional<llvm::Intrinsic::ID> instruction_of(Function function) {
  switch (function) {
    case Function::Sqrt:
      return llvm::Intrinsic::sqrt;
    case Function::Abs:
      return llvm::Intrinsic::fabs;
    case Function::Floor:
      return llvm::Intrinsic::floor;
    case Function::Ceil:
      return llvm::Intrinsic::ceil;
    case Function::Round:
      return llvm::Intrinsic::roundeven;
    default:
      return std::nullopt;
  }
}

llvm::Value* call_libm(llvm::IRBuilder<>& b, llvm::Module& module, Function function,
                       llvm::ArrayRef<llvm::Value*> arguments) {
  llvm::Type* scalar = arguments[0]->getType()->getScalarType();
  std::string name = std::string(libm_name(function)) + (scalar->isFloatTy() ? "f" : "");
  std::vector<llvm::Type*> types(arguments.size(), scalar);
  llvm::FunctionCallee callee = module.getOrInsertFunction(name, llvm::FunctionType::get(scalar, types, false));
  auto* declared = llvm::cast<llvm::Function>(callee.getCallee());
  declared->setDoesNotThrow();
  declared->setDoesNotAccessMemory();
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(arguments[0]->getType());
  if (!vector) return b.CreateCall(callee, arguments);
  llvm::Value* all = llvm::PoisonValue::get(vector);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    std::vector<llvm::Value*> scalars;
    for (llvm::Value* argument : arguments) scalars.push_back(b.CreateExtractElement(argument, lane));
    all = b.CreateInsertElement(all, b.CreateCall(callee, scalars), lane);
  }
  return all;
}

}  // namespace

// Halves are combined until one lane is left, which takes log2(lanes) steps.
llvm::Value* FunctionEmitter::combine_lanes(BinaryOp op, DType dtype, llvm::Value* vector) {
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(vector->getType());
  if (!type) return vector;
  for (unsigned lanes = type->getNumElements(); lanes > 1; lanes /= 2) {
    TW_CHECK(lanes % 2 == 0, "lanes of a reduced vector are a power of two");
    std::vector<int> low(lanes / 2), high(lanes / 2);
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), static_cast<int>(lanes / 2));
    llvm::Value* a = builder_.CreateShuffleVector(vector, low);
    llvm::Value* b = builder_.CreateShuffleVector(vector, high);
    vector = combine(op, dtype, a, b);
  }
  return builder_.CreateExtractElement(vector, builder_.getInt64(0));
}

llvm::Value* FunctionEmitter::call(const Call& node) {
  DType dtype = node.type.dtype;
  if (std::optional<BinaryOp> op = combined_by(node.function))
    return combine_lanes(*op, dtype, value(node.arguments[0]));
  std::vector<llvm::Value*> arguments;
  for (const Expr* argument : node.arguments) arguments.push_back(value(argument));
  if (!is_float(dtype)) {
    if (node.function == Function::Abs && dtype != DType::U8) {
      return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, arguments[0], builder_.getFalse());
    }
    return arguments[0];  // floor, ceil and round of an integer, abs of an unsigned one
  }
  bool through_f32 = is_half(dtype);
  if (through_f32) {
    for (llvm::Value*& argument : arguments) argument = convert(argument, dtype, DType::F32);
  }
  llvm::Value* x = arguments[0];
  auto one = [&] { return llvm::ConstantFP::get(x->getType(), 1.0); };
  llvm::Value* result = nullptr;
  if (x->getType()->getScalarType()->isFloatTy()) result = math_.call(node.function, x);
  if (!result) {
    if (auto intrinsic = instruction_of(node.function)) {
      result = builder_.CreateUnaryIntrinsic(*intrinsic, x);
    } else if (node.function == Function::Rsqrt) {
      result = builder_.CreateFDiv(one(), builder_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x));
    } else if (node.function == Function::Sigmoid) {
      llvm::Value* power = call_libm(builder_, module_.module(), Function::Exp, {builder_.CreateFNeg(x)});
      result = builder_.CreateFDiv(one(), builder_.CreateFAdd(one(), power));
    } else {
      result = call_libm(builder_, module_.module(), node.function, arguments);
    }
  }
  return through_f32 ? convert(result, DType::F32, dtype) : result;
}

}  // namespace tw::codegen
