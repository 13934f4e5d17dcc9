// Tensorized loop nests: the steps of an intrinsic's implementation instead of its loops.
#include <llvm/IR/Intrinsics.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Target/TargetMachine.h>

#include <algorithm>

#include "backends/llvm/emitter.h"
#include "dsl/base/check.h"
#include "dsl/ir/walk.h"

namespace tw::codegen {
namespace {

llvm::Type* scalar_type(llvm::LLVMContext& context, DType dtype) {
  switch (dtype) {
    case DType::F16:
      return llvm::Type::getHalfTy(context);
    case DType::BF16:
      return llvm::Type::getBFloatTy(context);
    case DType::F32:
      return llvm::Type::getFloatTy(context);
    case DType::F64:
      return llvm::Type::getDoubleTy(context);
    default:
      return llvm::Type::getIntNTy(context, static_cast<unsigned>(8 * bytes_of(dtype)));
  }
}

llvm::Type* llvm_type(llvm::LLVMContext& context, Type type) {
  llvm::Type* scalar = scalar_type(context, type.dtype);
  return type.lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, type.lanes);
}

llvm::FunctionCallee declare(llvm::Module& module, const Intrinsic& intrinsic, const IntrinsicStep& step) {
  std::vector<llvm::Type*> arguments;
  for (int at : step.arguments)
    arguments.push_back(llvm_type(module.getContext(), intrinsic.steps[static_cast<std::size_t>(at)].type));
  llvm::Type* result = llvm_type(module.getContext(), step.type);
  return module.getOrInsertFunction(step.function, llvm::FunctionType::get(result, arguments, false));
}

// Does LLVM know the function, and with these types?
bool is_known(llvm::FunctionCallee callee) {
  auto* function = llvm::dyn_cast<llvm::Function>(callee.getCallee());
  if (!function || !function->isIntrinsic() || function->getFunctionType() != callee.getFunctionType()) return false;
  llvm::SmallVector<llvm::Type*, 4> overloads;
  if (!llvm::Intrinsic::getIntrinsicSignature(function, overloads)) return false;
  return llvm::Intrinsic::getName(function->getIntrinsicID(), overloads, function->getParent(),
                                  function->getFunctionType()) == function->getName();
}

Status check(const Intrinsic& intrinsic, const llvm::TargetMachine& machine, llvm::Module& module) {
  const llvm::Triple& triple = machine.getTargetTriple();
  if (triple.getArchName() != intrinsic.arch)
    return reject("intrinsic `{a}` is for `{b}`, another architecture than the target's", intrinsic.name,
                  intrinsic.arch);
  for (const std::string& feature : intrinsic.features) {
    if (machine.getMCSubtargetInfo()->checkFeatures("+" + feature)) continue;
    return reject("intrinsic `{a}` needs `{b}`, which the target does not have", intrinsic.name, feature);
  }
  for (const IntrinsicStep& step : intrinsic.steps) {
    if (step.op != IntrinsicStep::Op::Call || is_known(declare(module, intrinsic, step))) continue;
    return reject("intrinsic `{a}`: LLVM has no `{b}` with these types", intrinsic.name, step.function);
  }
  return ok();
}

}  // namespace

Result<int> check_intrinsics(const LoweredProgram& program, const llvm::TargetMachine& machine, llvm::Module& module) {
  std::vector<const Intrinsic*> checked;
  Status status = ok();
  for (const Stmt* body : {program.run.body, program.prepack.body}) {
    for_each<For>(body, [&](const For* loop) {
      const Annotation* mark = find_annotation(loop->annotations, kIntrinsicMark);
      const Intrinsic* intrinsic = mark ? find_intrinsic(mark->value.text) : nullptr;
      if (!intrinsic || !status || std::find(checked.begin(), checked.end(), intrinsic) != checked.end()) return;
      checked.push_back(intrinsic);
      status = check(*intrinsic, machine, module);
    });
  }
  if (!status) return status.rejected();
  int widest = 0;
  for (const Intrinsic* intrinsic : checked) {
    for (const IntrinsicStep& step : intrinsic->steps)
      widest = std::max(widest, 8 * bytes_of(step.type.dtype) * step.type.lanes);
  }
  return widest;
}

void FunctionEmitter::intrinsic(const For& nest, const Intrinsic& intrinsic) {
  memo_.clear();
  auto operands = match_intrinsic(module_.arena(), intrinsic, &nest, ranges_);
  TW_CHECK(operands, "a tensorized nest that lowering did not check");
  std::vector<llvm::Value*> values;
  for (const IntrinsicStep& step : intrinsic.steps) {
    if (step.op != IntrinsicStep::Op::Call) {
      values.push_back(intrinsic_step(step, *operands, values));
      continue;
    }
    std::vector<llvm::Value*> arguments;
    for (int at : step.arguments) arguments.push_back(values[static_cast<std::size_t>(at)]);
    values.push_back(builder_.CreateCall(declare(module_.module(), intrinsic, step), arguments));
  }
}

llvm::Value* FunctionEmitter::intrinsic_step(const IntrinsicStep& step, const std::vector<IntrinsicOperand>& operands,
                                             const std::vector<llvm::Value*>& values) {
  auto argument = [&](std::size_t at) { return values[static_cast<std::size_t>(step.arguments[at])]; };
  if (step.op == IntrinsicStep::Op::Splat) return builder_.CreateVectorSplat(step.type.lanes, argument(0));
  llvm::Type* type = llvm_type(function_->getContext(), step.type);
  if (step.op == IntrinsicStep::Op::As) return builder_.CreateBitCast(argument(0), type);
  const IntrinsicOperand& operand = operands[static_cast<std::size_t>(step.operand)];
  std::optional<Address> address = split_index(operand.first);
  TW_CHECK(address, "an operand without an address");
  address->constant += step.offset;
  llvm::Value* pointer = pointer_to(operand.buffer, *address, true);
  llvm::Align align = align_of(operand.buffer, *address);
  if (step.op == IntrinsicStep::Op::Load) return builder_.CreateAlignedLoad(type, pointer, align);
  return builder_.CreateAlignedStore(argument(0), pointer, align);
}

}  // namespace tw::codegen
