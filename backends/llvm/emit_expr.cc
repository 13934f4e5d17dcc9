// Expressions. A value of type f16 is an LLVM half, of bf16 an i16 with its bits, of bool an i1; arithmetic on the
// first two goes through f32 and rounds after each operation.
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "backends/llvm/emitter.h"
#include "dsl/base/check.h"
#include "dsl/ir/walk.h"

namespace tw::codegen {
namespace {

bool is_unsigned(DType dtype) { return dtype == DType::U8 || dtype == DType::Bool; }

// May evaluating it do harm where its value is not wanted?
bool may_trap(const Expr* expr) {
  bool found = false;
  walk(expr, [&](const Node* node) {
    const Load* load = as<Load>(node);
    if (load && load->buffer->scope != Scope::Register) found = true;
    const Binary* binary = as<Binary>(node);
    if (binary && (binary->op == BinaryOp::FloorDiv || binary->op == BinaryOp::FloorMod)) {
      const Broadcast* all = as<Broadcast>(binary->b);
      std::optional<i64> divisor = constant_of(all ? all->value : binary->b);
      if (!divisor || *divisor == 0) found = true;
    }
    return !found;
  });
  return found;
}

std::optional<i64> positive_constant(const Expr* expr) {
  if (const Broadcast* all = as<Broadcast>(expr)) expr = all->value;
  std::optional<i64> value = constant_of(expr);
  return value && *value > 0 ? value : std::nullopt;
}

bool is_number(const Expr* expr, double number) {
  if (const Broadcast* all = as<Broadcast>(expr)) expr = all->value;
  const FloatImm* own = as<FloatImm>(expr);
  return own && own->value == number;
}

}  // namespace

llvm::Type* FunctionEmitter::value_type(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return builder_.getInt1Ty();
    case DType::I8:
    case DType::U8:
      return builder_.getInt8Ty();
    case DType::I32:
      return builder_.getInt32Ty();
    case DType::I64:
      return builder_.getInt64Ty();
    case DType::F16:
      return builder_.getHalfTy();
    case DType::BF16:
      return builder_.getInt16Ty();
    case DType::F32:
      return builder_.getFloatTy();
    case DType::F64:
      return builder_.getDoubleTy();
  }
  TW_CHECK(false);
}

llvm::Type* FunctionEmitter::memory_type(DType dtype) {
  return dtype == DType::Bool ? builder_.getInt8Ty() : value_type(dtype);
}

llvm::Type* FunctionEmitter::with_lanes(llvm::Type* type, int lanes) {
  return lanes == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
}

int FunctionEmitter::lanes_of(llvm::Value* value) const {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? static_cast<int>(vector->getNumElements()) : 1;
}

llvm::Value* FunctionEmitter::splat(llvm::Value* value, int lanes) {
  if (lanes == 1 || value->getType()->isVectorTy()) return value;
  return builder_.CreateVectorSplat(static_cast<unsigned>(lanes), value);
}

const FunctionEmitter::VarSlot& FunctionEmitter::slot_of(const Var* var) const {
  TW_CHECK(var->id < vars_.size() && vars_[var->id].var == var, "a variable without a loop, or an id of two variables");
  return vars_[var->id];
}

// Expressions are graphs: within one statement a shared node is computed once.
llvm::Value* FunctionEmitter::value(const Expr* expr) {
  if (expr->kind == Kind::IntImm || expr->kind == Kind::FloatImm) return constant(expr);
  if (const Var* var = as<Var>(expr)) return slot_of(var).value;
  if (auto known = memo_.find(expr); known != memo_.end()) return known->second;
  llvm::Value* result = compute(expr);
  memo_[expr] = result;
  return result;
}

llvm::Value* FunctionEmitter::constant(const Expr* expr) {
  const IntImm* integer = as<IntImm>(expr);
  const FloatImm* number = as<FloatImm>(expr);
  double real = number ? number->value : static_cast<double>(integer->value);
  DType dtype = expr->type.dtype;
  llvm::Value* scalar;
  if (is_half(dtype)) {
    scalar = convert(llvm::ConstantFP::get(builder_.getFloatTy(), real), DType::F32, dtype);
  } else if (is_float(dtype)) {
    scalar = llvm::ConstantFP::get(value_type(dtype), real);
  } else {
    scalar = llvm::ConstantInt::getSigned(value_type(dtype), integer ? integer->value : static_cast<i64>(real));
  }
  return splat(scalar, expr->type.lanes);
}

llvm::Value* FunctionEmitter::compute(const Expr* expr) {
  switch (expr->kind) {
    case Kind::Cast:
      return cast(*as<Cast>(expr));
    case Kind::Unary: {
      const Unary* node = as<Unary>(expr);
      llvm::Value* x = value(node->value);
      if (node->op == UnaryOp::Not) return builder_.CreateNot(x);
      DType dtype = node->type.dtype;
      if (!is_float(dtype)) return builder_.CreateNeg(x);
      return is_half(dtype) ? convert(builder_.CreateFNeg(convert(x, dtype, DType::F32)), DType::F32, dtype)
                            : builder_.CreateFNeg(x);
    }
    case Kind::Binary:
      return binary(*as<Binary>(expr));
    case Kind::Select: {
      const Select* node = as<Select>(expr);
      return select(node->condition, node->then, node->otherwise, node->type);
    }
    case Kind::Call:
      return call(*as<Call>(expr));
    case Kind::Load:
      return load(*as<Load>(expr));
    case Kind::Ramp: {
      const Ramp* node = as<Ramp>(expr);
      llvm::Type* element = value_type(node->type.dtype);
      std::vector<llvm::Constant*> lanes;
      for (int i = 0; i < node->type.lanes; ++i) lanes.push_back(llvm::ConstantInt::getSigned(element, i));
      llvm::Value* step = splat(value(node->stride), node->type.lanes);
      llvm::Value* base = splat(value(node->base), node->type.lanes);
      return builder_.CreateNSWAdd(base, builder_.CreateNSWMul(llvm::ConstantVector::get(lanes), step));
    }
    case Kind::Broadcast:
      return splat(value(as<Broadcast>(expr)->value), expr->type.lanes);
    default:
      break;
  }
  TW_CHECK(false, "an expression that lowering does not make");
}

// A scalar index expression, computed once in the head of the loop at `depth`.
llvm::Value* FunctionEmitter::index_value(const Expr* expr, int depth) {
  if (expr->kind == Kind::Var || expr->kind == Kind::IntImm) return value(expr);
  Level& level = levels_[depth];
  if (auto known = level.indices.find(expr); known != level.indices.end()) return known->second;
  llvm::IRBuilderBase::InsertPointGuard guard(builder_);
  builder_.SetInsertPoint(level.head->getTerminator());
  llvm::DenseMap<const Expr*, llvm::Value*> outside;
  outside.swap(memo_);
  llvm::Value* result = compute(expr);
  memo_.swap(outside);
  levels_[depth].indices[expr] = result;
  return result;
}

int FunctionEmitter::depth_of(const Expr* expr) const {
  if (const Var* var = as<Var>(expr)) return slot_of(var).depth;
  int depth = 0;
  walk(expr, [&](const Node* node) {
    if (const Var* var = as<Var>(node); var && depth >= 0) depth = std::max(depth, slot_of(var).depth);
    const Binary* binary = as<Binary>(node);
    bool divides = binary && (binary->op == BinaryOp::FloorDiv || binary->op == BinaryOp::FloorMod);
    if (node->kind == Kind::Load || node->kind == Kind::Select || (divides && !positive_constant(binary->b)))
      depth = -1;
    return depth >= 0;
  });
  return depth;
}

// Pairs of operations that take fewer instructions together; null if it is none.
llvm::Value* FunctionEmitter::joined(const Binary& node) {
  if (node.a->type.dtype != DType::F32) return nullptr;
  for (auto [expr, other] : {std::pair(node.a, node.b), {node.b, node.a}}) {
    const Call* call = as<Call>(expr);
    if (!call) continue;
    if (node.op == BinaryOp::Mul && call->function == Function::Sigmoid)
      return math_.times_sigmoid(value(other), value(call->arguments[0]));
    if (node.op != BinaryOp::Add || !is_number(other, 1)) continue;
    if (call->function == Function::Tanh) return math_.one_plus_tanh(value(call->arguments[0]));
    if (call->function == Function::Erf) return math_.one_plus_erf(value(call->arguments[0]));
  }
  return nullptr;
}

llvm::Value* FunctionEmitter::binary(const Binary& node) {
  DType dtype = node.a->type.dtype;
  if (llvm::Value* result = joined(node)) return result;
  if (node.op == BinaryOp::FloorDiv || node.op == BinaryOp::FloorMod) return divide(node);
  bool is_logic = node.op == BinaryOp::And || node.op == BinaryOp::Or;
  if (is_logic && dtype == DType::Bool && may_trap(node.b)) {  // the second operand may be guarded by the first
    IntImm decided{Expr{{Kind::IntImm}, {DType::Bool, 1}}, node.op == BinaryOp::Or};
    llvm::Value* result = node.op == BinaryOp::And ? select(node.a, node.b, &decided, node.type)
                                                   : select(node.a, &decided, node.b, node.type);
    return result;
  }
  llvm::Value *a = value(node.a), *b = value(node.b);
  if (is_half(dtype) && node.type.dtype == DType::Bool) {
    return float_binary(node.op, convert(a, dtype, DType::F32), convert(b, dtype, DType::F32));
  }
  return combine(node.op, dtype, a, b);
}

// An operation whose result has the type of its operands, or a comparison of types that are computed in directly.
llvm::Value* FunctionEmitter::combine(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b) {
  if (!is_float(dtype)) return int_binary(op, dtype, a, b);
  if (!is_half(dtype)) return float_binary(op, a, b);
  return convert(float_binary(op, convert(a, dtype, DType::F32), convert(b, dtype, DType::F32)), DType::F32, dtype);
}

llvm::Value* FunctionEmitter::float_binary(BinaryOp op, llvm::Value* a, llvm::Value* b) {
  switch (op) {
    case BinaryOp::Add:
      return builder_.CreateFAdd(a, b);
    case BinaryOp::Sub:
      return builder_.CreateFSub(a, b);
    case BinaryOp::Mul:
      return builder_.CreateFMul(a, b);
    case BinaryOp::Div:
      return builder_.CreateFDiv(a, b);
    // One instruction on x86, whatever is a NaN.
    case BinaryOp::Min:
      return builder_.CreateSelect(builder_.CreateFCmpOLT(a, b), a, b);
    case BinaryOp::Max:
      return builder_.CreateSelect(builder_.CreateFCmpOGT(a, b), a, b);
    case BinaryOp::Lt:
      return builder_.CreateFCmpOLT(a, b);
    case BinaryOp::Le:
      return builder_.CreateFCmpOLE(a, b);
    case BinaryOp::Gt:
      return builder_.CreateFCmpOGT(a, b);
    case BinaryOp::Ge:
      return builder_.CreateFCmpOGE(a, b);
    case BinaryOp::Eq:
      return builder_.CreateFCmpOEQ(a, b);
    case BinaryOp::Ne:
      return builder_.CreateFCmpUNE(a, b);
    default:
      break;
  }
  TW_CHECK(false, "an operator that floats do not have");
}

llvm::Value* FunctionEmitter::int_binary(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b) {
  bool is_index = dtype == DType::I64;  // never wraps
  bool is_u = is_unsigned(dtype);
  using Predicate = llvm::CmpInst::Predicate;
  auto compare = [&](Predicate with_sign, Predicate without) {
    return builder_.CreateICmp(is_u ? without : with_sign, a, b);
  };
  switch (op) {
    case BinaryOp::Add:
      return builder_.CreateAdd(a, b, "", false, is_index);
    case BinaryOp::Sub:
      return builder_.CreateSub(a, b, "", false, is_index);
    case BinaryOp::Mul:
      return builder_.CreateMul(a, b, "", false, is_index);
    case BinaryOp::Min:
      return builder_.CreateBinaryIntrinsic(is_u ? llvm::Intrinsic::umin : llvm::Intrinsic::smin, a, b);
    case BinaryOp::Max:
      return builder_.CreateBinaryIntrinsic(is_u ? llvm::Intrinsic::umax : llvm::Intrinsic::smax, a, b);
    case BinaryOp::Lt:
      return compare(Predicate::ICMP_SLT, Predicate::ICMP_ULT);
    case BinaryOp::Le:
      return compare(Predicate::ICMP_SLE, Predicate::ICMP_ULE);
    case BinaryOp::Gt:
      return compare(Predicate::ICMP_SGT, Predicate::ICMP_UGT);
    case BinaryOp::Ge:
      return compare(Predicate::ICMP_SGE, Predicate::ICMP_UGE);
    case BinaryOp::Eq:
      return builder_.CreateICmpEQ(a, b);
    case BinaryOp::Ne:
      return builder_.CreateICmpNE(a, b);
    case BinaryOp::And:
      return builder_.CreateAnd(a, b);
    case BinaryOp::Or:
      return builder_.CreateOr(a, b);
    default:
      break;
  }
  TW_CHECK(false, "an operator that integers do not have");
}

std::optional<Interval> FunctionEmitter::range_of(const Expr* expr) const {
  if (expr->type.lanes == 1) return interval_of(expr, ranges_);
  const Binary* node = as<Binary>(expr);
  std::optional<i64> divisor = node ? positive_constant(node->b) : std::nullopt;
  if (divisor && node->op == BinaryOp::FloorMod) return Interval{0, *divisor - 1};
  if (divisor && node->op == BinaryOp::FloorDiv) {
    std::optional<Interval> whole = range_of(node->a);
    if (!whole || whole->min < 0) return std::nullopt;
    return Interval{whole->min / *divisor, whole->max / *divisor};
  }
  std::optional<Address> sum = expr->type.dtype == DType::I64 ? split_index(expr) : std::nullopt;
  if (!sum) return std::nullopt;
  Interval total{sum->constant, sum->constant};
  auto add = [&](i64 x, i64 y) { total = {total.min + std::min(x, y), total.max + std::max(x, y)}; };
  add(0, sum->stride * (expr->type.lanes - 1));
  for (const auto& [term, coefficient] : sum->terms) {
    std::optional<Interval> range = interval_of(term, ranges_);
    if (!range) return std::nullopt;
    add(range->min * coefficient, range->max * coefficient);
  }
  return total;
}

// Quotient rounded down, and the remainder that has the divisor's sign.
llvm::Value* FunctionEmitter::divide(const Binary& node) {
  bool wants_quotient = node.op == BinaryOp::FloorDiv;
  llvm::Value *a = value(node.a), *b = value(node.b);
  std::optional<i64> divisor = positive_constant(node.b);
  if (divisor && (*divisor & (*divisor - 1)) == 0 &&
      !is_unsigned(node.type.dtype)) {  // exact for negative dividends too
    llvm::Type* type = a->getType();
    if (!wants_quotient) return builder_.CreateAnd(a, llvm::ConstantInt::get(type, static_cast<u64>(*divisor - 1)));
    return builder_.CreateAShr(
        a, llvm::ConstantInt::get(type, static_cast<u64>(__builtin_ctzll(static_cast<u64>(*divisor)))));
  }
  auto unsigned_result = [&] { return wants_quotient ? builder_.CreateUDiv(a, b) : builder_.CreateURem(a, b); };
  if (is_unsigned(node.type.dtype)) return unsigned_result();
  std::optional<Interval> range = divisor ? range_of(node.a) : std::nullopt;
  if (range && range->min >= 0) {
    if (node.type.lanes == 1 || std::max(range->max, *divisor) >= (i64{1} << 31)) return unsigned_result();
    // Vector units multiply 32-bit lanes only.
    llvm::Type *wide = a->getType(), *narrow = with_lanes(builder_.getInt32Ty(), node.type.lanes);
    a = builder_.CreateTrunc(a, narrow), b = builder_.CreateTrunc(b, narrow);
    return builder_.CreateZExt(unsigned_result(), wide);
  }
  llvm::Value *quotient = builder_.CreateSDiv(a, b), *remainder = builder_.CreateSRem(a, b);
  llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
  llvm::Value* signs_differ = builder_.CreateICmpSLT(builder_.CreateXor(remainder, b), zero);
  llvm::Value* is_off = builder_.CreateAnd(builder_.CreateICmpNE(remainder, zero), signs_differ);
  if (wants_quotient) return builder_.CreateAdd(quotient, builder_.CreateSExt(is_off, a->getType()));
  return builder_.CreateAdd(remainder, builder_.CreateSelect(is_off, b, zero));
}

llvm::Value* FunctionEmitter::cast(const Cast& node) {
  return convert(value(node.value), node.value->type.dtype, node.type.dtype);
}

namespace {

// f32 <-> the bits of bf16, rounding to nearest even; a NaN stays one.
llvm::Value* bf16_to_float(llvm::IRBuilder<>& b, llvm::Value* bits, llvm::Type* wide, llvm::Type* real) {
  return b.CreateBitCast(b.CreateShl(b.CreateZExt(bits, wide), 16), real);
}
llvm::Value* float_to_bf16(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Type* wide, llvm::Type* narrow) {
  auto number = [&](u64 v) { return llvm::ConstantInt::get(wide, v); };
  llvm::Value* bits = b.CreateBitCast(x, wide);
  llvm::Value* lowest = b.CreateAnd(b.CreateLShr(bits, 16), number(1));
  llvm::Value* rounded = b.CreateAdd(b.CreateAdd(bits, number(0x7fff)), lowest);
  llvm::Value* nan = b.CreateOr(bits, number(0x400000));
  return b.CreateTrunc(b.CreateLShr(b.CreateSelect(b.CreateFCmpUNO(x, x), nan, rounded), 16), narrow);
}

}  // namespace

llvm::Value* FunctionEmitter::convert(llvm::Value* x, DType from, DType to) {
  if (from == to) return x;
  int lanes = lanes_of(x);
  auto type = [&](llvm::Type* scalar) { return with_lanes(scalar, lanes); };
  llvm::Type *f32 = type(builder_.getFloatTy()), *i32 = type(builder_.getInt32Ty());
  if (to == DType::BF16 && from == DType::F32) return float_to_bf16(builder_, x, i32, type(builder_.getInt16Ty()));
  if (from == DType::BF16 && to == DType::F32) return bf16_to_float(builder_, x, i32, f32);
  if (from == DType::F16 && to == DType::F32) return builder_.CreateFPExt(x, f32);
  if (from == DType::F32 && to == DType::F16) return builder_.CreateFPTrunc(x, type(builder_.getHalfTy()));
  if (is_half(from)) return convert(convert(x, from, DType::F32), DType::F32, to);
  if (is_half(to)) return convert(convert(x, from, DType::F32), DType::F32, to);

  llvm::Type* target = type(value_type(to));
  if (is_float(from)) {
    if (is_float(to)) return builder_.CreateFPCast(x, target);
    if (to == DType::Bool) return builder_.CreateFCmpUNE(x, llvm::Constant::getNullValue(x->getType()));
    // Narrow integers go through i32, so that a value outside wraps as in C on every machine that has 32-bit
    // conversions.
    if (bytes_of(to) < 4) return builder_.CreateTrunc(builder_.CreateFPToSI(x, i32), target);
    return builder_.CreateFPToSI(x, target);
  }
  if (is_float(to)) return is_unsigned(from) ? builder_.CreateUIToFP(x, target) : builder_.CreateSIToFP(x, target);
  if (to == DType::Bool) return builder_.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
  return builder_.CreateIntCast(x, target, !is_unsigned(from));
}

llvm::Value* FunctionEmitter::select(const Expr* condition, const Expr* then, const Expr* otherwise, Type type) {
  bool is_guard = may_trap(then) || may_trap(otherwise);
  if (const Broadcast* all = as<Broadcast>(condition)) condition = all->value;
  llvm::Value* chosen = value(condition);
  if (!is_guard) {
    llvm::Value *a = splat(value(then), type.lanes), *b = splat(value(otherwise), type.lanes);
    return builder_.CreateSelect(chosen, a, b);
  }
  if (!chosen->getType()->isVectorTy()) return branch_select(chosen, then, otherwise, type.lanes);
  llvm::Value* outside = mask_;
  bool was_first_active = is_first_active_;
  auto under = [&](llvm::Value* mask, const Expr* side) {
    mask_ = outside ? builder_.CreateAnd(outside, mask) : mask;
    is_first_active_ = false;
    llvm::DenseMap<const Expr*, llvm::Value*> kept = memo_;
    llvm::Value* result = splat(value(side), type.lanes);
    memo_ = std::move(kept);
    mask_ = outside, is_first_active_ = was_first_active;
    return result;
  };
  llvm::Value* a = under(chosen, then);
  llvm::Value* b = under(builder_.CreateNot(chosen), otherwise);
  return builder_.CreateSelect(chosen, a, b);
}

llvm::Value* FunctionEmitter::branch_select(llvm::Value* condition, const Expr* then, const Expr* otherwise,
                                            int lanes) {
  llvm::BasicBlock *then_block = block("then"), *else_block = block("else"), *after = block("selected");
  builder_.CreateCondBr(condition, then_block, else_block);
  auto side = [&](llvm::BasicBlock* at, const Expr* expr) {
    builder_.SetInsertPoint(at);
    llvm::DenseMap<const Expr*, llvm::Value*> kept = memo_;
    llvm::Value* result = splat(value(expr), lanes);
    memo_ = std::move(kept);
    llvm::BasicBlock* end = builder_.GetInsertBlock();
    builder_.CreateBr(after);
    return std::pair(result, end);
  };
  auto [a, a_block] = side(then_block, then);
  auto [b, b_block] = side(else_block, otherwise);
  builder_.SetInsertPoint(after);
  llvm::PHINode* phi = builder_.CreatePHI(a->getType(), 2);
  phi->addIncoming(a, a_block);
  phi->addIncoming(b, b_block);
  return phi;
}

}  // namespace tw::codegen
