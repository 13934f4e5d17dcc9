// Loads, stores' addresses, and the split of an address into a hoisted base and a constant offset.
#include <algorithm>
#include <numeric>

#include "backends/llvm/emitter.h"
#include "backends/llvm/opaque_pointer.h"
#include "dsl/base/check.h"
#include "dsl/ir/walk.h"

namespace tw::codegen {
namespace {

std::optional<i64> uniform_constant(const Expr* expr) {
  if (const Broadcast* all = as<Broadcast>(expr)) expr = all->value;
  return constant_of(expr);
}

void add_term(Address& address, const Expr* term, i64 coefficient) {
  for (auto& [known, sum] : address.terms) {
    if (known == term) {
      sum += coefficient;
      return;
    }
  }
  address.terms.emplace_back(term, coefficient);
}

bool add_index(const Expr* expr, i64 scale, Address& address) {
  if (const IntImm* imm = as<IntImm>(expr)) {
    address.constant += scale * imm->value;
    return true;
  }
  if (const Ramp* ramp = as<Ramp>(expr)) {
    std::optional<i64> stride = constant_of(ramp->stride);
    if (!stride) return false;
    address.stride += scale * *stride;
    return add_index(ramp->base, scale, address);
  }
  if (const Broadcast* all = as<Broadcast>(expr)) return add_index(all->value, scale, address);
  if (const Unary* unary = as<Unary>(expr); unary && unary->op == UnaryOp::Neg)
    return add_index(unary->value, -scale, address);
  if (const Binary* node = as<Binary>(expr)) {
    if (node->op == BinaryOp::Add) return add_index(node->a, scale, address) && add_index(node->b, scale, address);
    if (node->op == BinaryOp::Sub) return add_index(node->a, scale, address) && add_index(node->b, -scale, address);
    if (node->op == BinaryOp::Mul) {
      if (std::optional<i64> factor = uniform_constant(node->b)) return add_index(node->a, scale * *factor, address);
      if (std::optional<i64> factor = uniform_constant(node->a)) return add_index(node->b, scale * *factor, address);
    }
  }
  if (expr->type.lanes != 1) return false;
  add_term(address, expr, scale);
  return true;
}

}  // namespace

std::optional<Address> split_index(const Expr* index) {
  Address address;
  if (!add_index(index, 1, address)) return std::nullopt;
  std::erase_if(address.terms, [](const auto& term) { return term.second == 0; });
  return address;
}

const BoundBuffer& FunctionEmitter::find(const Buffer* buffer) const {
  for (std::size_t i = buffers_.size(); i-- > 0;) {
    if (buffers_[i].buffer == buffer) return buffers_[i];
  }
  TW_CHECK(false, "a buffer without a place");
}

llvm::Align FunctionEmitter::align_of(const Buffer* buffer, const Address& address) const {
  i64 bytes = bytes_of(buffer->dtype);
  i64 divisor = std::gcd(static_cast<i64>(find(buffer).alignment), address.constant * bytes);
  for (const auto& [term, coefficient] : address.terms) divisor = std::gcd(divisor, coefficient * bytes);
  return llvm::Align(std::max(divisor & -divisor, bytes));
}

// Terms of outer loops are added in the heads of those loops, so that an inner loop adds only its own; equal sums are
// shared.
llvm::Value* FunctionEmitter::pointer_to(const Buffer* buffer, const Address& address, bool may_hide) {
  int bytes = bytes_of(buffer->dtype), innermost = static_cast<int>(levels_.size()) - 1;
  llvm::Value* pointer = find(buffer).pointer;
  int pointer_depth = 0;
  std::vector<std::pair<const Expr*, i64>> rest = address.terms, here;
  for (int depth = 0; depth <= innermost && !rest.empty(); ++depth) {
    here.clear();
    std::erase_if(rest, [&](const auto& term) {
      bool is_here = depth_of(term.first) == depth;
      if (is_here) here.push_back(term);
      return is_here;
    });
    if (here.empty()) continue;
    pointer = offset_by_terms(pointer, here, depth, bytes);
    pointer_depth = depth;
  }
  if (may_hide && !hiding_.empty() && rest.empty()) pointer = hide(pointer, std::max(pointer_depth, hiding_.back()));
  for (const auto& [term, coefficient] : rest) {
    llvm::Value* offset = builder_.CreateNSWMul(value(term), builder_.getInt64(coefficient * bytes));
    pointer = builder_.CreateInBoundsGEP(builder_.getInt8Ty(), pointer, offset);
  }
  if (address.constant == 0) return pointer;
  llvm::Value* offset = builder_.getInt64(address.constant * bytes);
  // Under a mask the first lane may lie outside of the buffer.
  if (mask_) return builder_.CreateGEP(builder_.getInt8Ty(), pointer, offset);
  return builder_.CreateInBoundsGEP(builder_.getInt8Ty(), pointer, offset);
}

llvm::Value* FunctionEmitter::offset_by_terms(llvm::Value* base, const std::vector<std::pair<const Expr*, i64>>& terms,
                                              int depth, int bytes) {
  for (const Level::CachedPointer& cached : levels_[depth].pointers) {
    if (cached.base == base && cached.terms == terms) return cached.pointer;
  }
  llvm::Value* pointer = base;
  for (const auto& [term, coefficient] : terms) {
    llvm::Value* index = index_value(term, depth);
    llvm::IRBuilderBase::InsertPointGuard guard(builder_);
    builder_.SetInsertPoint(levels_[depth].head->getTerminator());
    llvm::Value* offset = builder_.CreateNSWMul(index, builder_.getInt64(coefficient * bytes));
    pointer = builder_.CreateInBoundsGEP(builder_.getInt8Ty(), pointer, offset);
  }
  levels_[depth].pointers.push_back({base, terms, pointer});
  return pointer;
}

// LLVM must not see that two pointers are equal, else it keeps what it loaded for one copy of an unrolled window alive
// for the next ones and spills accumulators.
llvm::Value* FunctionEmitter::hide(llvm::Value* pointer, int depth) {
  for (const auto& [plain, hidden] : levels_[depth].hidden) {
    if (plain == pointer) return hidden;
  }
  llvm::IRBuilderBase::InsertPointGuard guard(builder_);
  builder_.SetInsertPoint(levels_[depth].head->getTerminator());
  llvm::Value* hidden = opaque_copy(builder_, pointer, ++hidden_count_);
  levels_[depth].hidden.emplace_back(pointer, hidden);
  return hidden;
}

llvm::Value* FunctionEmitter::from_memory(llvm::Value* value, DType dtype) {
  if (dtype != DType::Bool) return value;
  return builder_.CreateICmpNE(value, llvm::Constant::getNullValue(value->getType()));
}

llvm::Value* FunctionEmitter::to_memory(llvm::Value* value, DType dtype) {
  if (dtype != DType::Bool) return value;
  return builder_.CreateZExt(value, with_lanes(builder_.getInt8Ty(), lanes_of(value)));
}

// A load may read lanes that nobody wants where they lie in the buffer, as those of Register buffers do.
bool FunctionEmitter::needs_mask(const Load& load) const {
  if (!mask_ || load.buffer->scope == Scope::Register) return false;
  std::optional<Interval> range = range_of(load.indices[0]);
  return !range || range->min < 0 || range->max >= load.buffer->shape[0];
}

bool FunctionEmitter::is_mask_known() const { return !mask_ || llvm::isa<llvm::Constant>(mask_); }

// True too where only the running code knows the mask.
bool FunctionEmitter::may_be_active(int lane) const {
  if (!mask_ || !is_mask_known()) return true;
  llvm::Constant* element = llvm::cast<llvm::Constant>(mask_)->getAggregateElement(static_cast<unsigned>(lane));
  return element->isOneValue();
}

llvm::Value* FunctionEmitter::load(const Load& load) {
  const Expr* index = load.indices[0];
  DType dtype = load.buffer->dtype;
  llvm::Type* type = with_lanes(memory_type(dtype), load.type.lanes);
  std::optional<Address> address = split_index(index);
  if (!address) {
    llvm::Value* pointers = gather_pointers(load.buffer, index);
    llvm::Value* mask = needs_mask(load) ? mask_ : nullptr;
    llvm::Align align(bytes_of(dtype));
    return from_memory(builder_.CreateMaskedGather(type, pointers, align, mask, llvm::Constant::getNullValue(type)),
                       dtype);
  }
  if (load.type.lanes > 1 && address->stride != 1) return from_memory(load_strided(load, *address), dtype);
  llvm::Value* pointer = pointer_to(load.buffer, *address, /*may_hide=*/load.buffer->scope != Scope::Register);
  llvm::Align align = align_of(load.buffer, *address);
  if (load.type.lanes > 1) prefetch(load.buffer, *address, pointer);
  if (!needs_mask(load)) return from_memory(builder_.CreateAlignedLoad(type, pointer, align), dtype);
  return from_memory(load_contiguous(type, pointer, align), dtype);
}

// Inside of a loop marked `prefetch`: asks for what the same load reads some bytes later. One request for each line of
// the cache.
void FunctionEmitter::prefetch(const Buffer* buffer, const Address& address, llvm::Value* pointer) {
  constexpr i64 kLine = 64;
  if (prefetching_.bytes == 0 || buffer->scope == Scope::Register ||
      address.constant * bytes_of(buffer->dtype) % kLine != 0)
    return;
  bool moves = false;
  for (const auto& [term, coefficient] : address.terms) moves |= uses(term, prefetching_.var);
  if (!moves || std::find(prefetching_.done.begin(), prefetching_.done.end(), std::pair(buffer, address)) !=
                    prefetching_.done.end())
    return;
  prefetching_.done.emplace_back(buffer, address);
  // Not inbounds: behind the last panel there may be nothing, and an address that is not mapped is ignored.
  llvm::Value* later = builder_.CreateGEP(builder_.getInt8Ty(), pointer, builder_.getInt64(prefetching_.bytes));
  llvm::Value* arguments[] = {later, builder_.getInt32(0), builder_.getInt32(3),
                              builder_.getInt32(1)};  // read, into all caches, data
  builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {later->getType()}, arguments);
}

// A load under the mask: nothing outside the active lanes is touched.
llvm::Value* FunctionEmitter::load_contiguous(llvm::Type* type, llvm::Value* pointer, llvm::Align align) {
  if (type->isVectorTy()) {
    TW_CHECK(lanes_of(mask_) == static_cast<int>(llvm::cast<llvm::FixedVectorType>(type)->getNumElements()));
    return builder_.CreateMaskedLoad(type, pointer, align, mask_, llvm::Constant::getNullValue(type));
  }
  if (is_first_active_) return builder_.CreateAlignedLoad(type, pointer, align);
  llvm::Value* any = builder_.CreateOrReduce(mask_);
  llvm::BasicBlock *from = builder_.GetInsertBlock(), *read = block("read"), *after = block("after");
  builder_.CreateCondBr(any, read, after);
  builder_.SetInsertPoint(read);
  llvm::Value* loaded = builder_.CreateAlignedLoad(type, pointer, align);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
  llvm::PHINode* phi = builder_.CreatePHI(type, 2);
  phi->addIncoming(loaded, read);
  phi->addIncoming(llvm::Constant::getNullValue(type), from);
  return phi;
}

// Evenly spaced lanes: one scalar load each is faster than a gather instruction on the processors at hand; stride 0 is
// one load.
llvm::Value* FunctionEmitter::load_strided(const Load& load, const Address& address) {
  int lanes = load.type.lanes;
  llvm::Type* element = memory_type(load.buffer->dtype);
  llvm::Align align(bytes_of(load.buffer->dtype));
  Address lane = address;
  lane.stride = 0;
  if (address.stride == 0) {
    llvm::Value* pointer = pointer_to(load.buffer, lane, true);
    llvm::Value* one = needs_mask(load) ? load_contiguous(element, pointer, align)
                                        : builder_.CreateAlignedLoad(element, pointer, align);
    return splat(one, lanes);
  }
  if (needs_mask(load) && !is_mask_known()) {
    llvm::Type* type = with_lanes(element, lanes);
    llvm::Value* pointers = gather_pointers(load.buffer, load.indices[0]);
    return builder_.CreateMaskedGather(type, pointers, align, mask_, llvm::Constant::getNullValue(type));
  }
  llvm::Value* all = llvm::PoisonValue::get(with_lanes(element, lanes));
  for (int i = 0; i < lanes; ++i, lane.constant += address.stride) {
    if (!may_be_active(i)) continue;
    llvm::Value* one = builder_.CreateAlignedLoad(element, pointer_to(load.buffer, lane, true), align);
    all = builder_.CreateInsertElement(all, one, static_cast<u64>(i));
  }
  return all;
}

llvm::Value* FunctionEmitter::gather_pointers(const Buffer* buffer, const Expr* index) {
  llvm::Value* indices = value(index);
  llvm::Value* offsets =
      builder_.CreateNSWMul(indices, splat(builder_.getInt64(bytes_of(buffer->dtype)), lanes_of(indices)));
  return builder_.CreateInBoundsGEP(builder_.getInt8Ty(), find(buffer).pointer, offsets);
}

void FunctionEmitter::store_to(const StoreTarget& target, llvm::Value* value) {
  const Expr* index = target.indices[0];
  DType dtype = target.buffer->dtype;
  llvm::Align element_align(bytes_of(dtype));
  value = splat(to_memory(value, dtype), index->type.lanes);
  std::optional<Address> address = split_index(index);
  bool is_masked = mask_ && target.buffer->scope != Scope::Register;
  bool is_contiguous = address && (index->type.lanes == 1 || address->stride == 1);
  if (!is_contiguous && (!address || !is_mask_known())) {
    builder_.CreateMaskedScatter(value, gather_pointers(target.buffer, index), element_align, mask_);
    return;
  }
  if (is_contiguous) {
    llvm::Value* pointer = pointer_to(target.buffer, *address, false);
    llvm::Align align = align_of(target.buffer, *address);
    TW_CHECK(!mask_ || index->type.lanes == lanes_of(mask_), "a store under a vector condition has other lanes");
    if (mask_ && find(target.buffer).keeps_lanes) {  // a masked store would keep the accumulator in memory
      value = builder_.CreateSelect(mask_, value, builder_.CreateAlignedLoad(value->getType(), pointer, align));
    }
    if (!is_masked) {
      builder_.CreateAlignedStore(value, pointer, align);
    } else {
      builder_.CreateMaskedStore(value, pointer, align, mask_);
    }
    return;
  }
  Address lane = *address;
  lane.stride = 0;
  for (int i = 0; i < index->type.lanes; ++i, lane.constant += address->stride) {
    if (!may_be_active(i)) continue;
    builder_.CreateAlignedStore(builder_.CreateExtractElement(value, static_cast<u64>(i)),
                                pointer_to(target.buffer, lane, false), element_align);
  }
}

}  // namespace tw::codegen
