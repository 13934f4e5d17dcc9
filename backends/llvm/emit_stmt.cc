// Statements: loops, branches, local arrays, and the call of a parallel loop.
#include <algorithm>
#include <utility>

#include "backends/llvm/emitter.h"
#include "backends/llvm/lane_use.h"
#include "dsl/base/check.h"
#include "dsl/ir/program.h"
#include "dsl/ir/walk.h"

namespace tw::codegen {

LiveIns live_ins(const Stmt* stmt) {
  LiveIns ins;
  std::vector<const Buffer*> own_buffers;
  std::vector<const Var*> own_vars;
  auto add = [](auto& list, const auto& own, auto item) {
    if (std::ranges::find(own, item) == own.end() && std::ranges::find(list, item) == list.end()) list.push_back(item);
  };
  walk(stmt, [&](const Node* node) {  // pre-order: definitions come before uses
    if (const Alloc* alloc = as<Alloc>(node)) own_buffers.push_back(alloc->buffer);
    if (const For* loop = as<For>(node)) own_vars.push_back(loop->var);
    if (const Load* load = as<Load>(node)) add(ins.buffers, own_buffers, load->buffer);
    if (const Var* var = as<Var>(node)) add(ins.vars, own_vars, var);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) add(ins.buffers, own_buffers, target.buffer);
    }
    return true;
  });
  return ins;
}

FunctionEmitter::FunctionEmitter(ModuleEmitter& module, llvm::Function* function)
    : module_(module), function_(function), builder_(function->getContext()), math_(builder_, module.has_table()) {
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  builder_.setFastMathFlags(flags);
  builder_.SetInsertPoint(block("entry"));
  enter_scope(false);
}

llvm::BasicBlock* FunctionEmitter::block(const char* name) {
  return llvm::BasicBlock::Create(function_->getContext(), name, function_);
}

void FunctionEmitter::bind(const BoundVar& bound) {
  if (vars_.size() <= bound.var->id) vars_.resize(bound.var->id + 1);
  vars_[bound.var->id] = {bound.var, bound.value, static_cast<int>(levels_.size()) - 1};
  ranges_.set(bound.var, bound.range);
}

// From here on, what needs computing once per iteration goes to the end of the current block.
void FunctionEmitter::enter_scope(bool hides_addresses) {
  llvm::BasicBlock *head = builder_.GetInsertBlock(), *body = block("body");
  builder_.CreateBr(body);
  builder_.SetInsertPoint(body);
  levels_.emplace_back().head = head;
  if (hides_addresses) hiding_.push_back(static_cast<int>(levels_.size()) - 1);
}

void FunctionEmitter::leave_scope(bool hides_addresses) {
  if (hides_addresses) hiding_.pop_back();
  levels_.pop_back();
}

void FunctionEmitter::run(const Stmt* body) {
  stmt(body);
  builder_.CreateRetVoid();
}

void FunctionEmitter::stmt(const Stmt* node) {
  if (!node) return;
  switch (node->kind) {
    case Kind::Seq:
      for (const Stmt* child : as<Seq>(node)->stmts) stmt(child);
      return;
    case Kind::Store:
      return store(*as<Store>(node));
    case Kind::If:
      return branch(*as<If>(node));
    case Kind::For:
      return loop(*as<For>(node));
    case Kind::Alloc:
      return alloc(*as<Alloc>(node));
    default:
      break;
  }
  TW_CHECK(false, "a statement that lowering does not make");
}

void FunctionEmitter::store(const Store& node) {
  memo_.clear();
  std::vector<llvm::Value*> values;
  for (const Expr* expr : node.values) values.push_back(value(expr));
  for (std::size_t i = 0; i < values.size(); ++i) store_to(node.targets[i], values[i]);
}

// True only if the ranges of the variables prove it.
bool FunctionEmitter::holds_for_first_lane(const Expr* condition) const {
  const Binary* node = as<Binary>(condition);
  if (node && node->op == BinaryOp::And) return holds_for_first_lane(node->a) && holds_for_first_lane(node->b);
  const Ramp* lanes = node && node->op == BinaryOp::Lt ? as<Ramp>(node->a) : nullptr;
  const Broadcast* end = lanes ? as<Broadcast>(node->b) : nullptr;
  std::optional<Interval> first = end ? range_of(lanes->base) : std::nullopt;
  std::optional<Interval> bound = end ? range_of(end->value) : std::nullopt;
  return first && bound && first->max < bound->min;
}

void FunctionEmitter::branch(const If& node) {
  memo_.clear();
  llvm::Value* condition = value(node.condition);
  if (condition->getType()->isVectorTy()) {
    llvm::Value* outside = mask_;
    bool was_first_active = is_first_active_;
    auto under = [&](llvm::Value* mask, bool holds_for_first, const Stmt* body) {
      mask_ = outside ? builder_.CreateAnd(outside, mask) : mask;
      is_first_active_ = was_first_active && holds_for_first;
      stmt(body);
      mask_ = outside, is_first_active_ = was_first_active;
    };
    under(condition, holds_for_first_lane(node.condition), node.then);
    if (node.otherwise) under(builder_.CreateNot(condition), false, node.otherwise);
    return;
  }
  llvm::BasicBlock *then = block("then"), *after = block("endif"), *otherwise = node.otherwise ? block("else") : after;
  builder_.CreateCondBr(condition, then, otherwise);
  auto fill = [&](llvm::BasicBlock* at, const Stmt* body) {
    builder_.SetInsertPoint(at);
    stmt(body);
    builder_.CreateBr(after);
  };
  fill(then, node.then);
  if (node.otherwise) fill(otherwise, node.otherwise);
  builder_.SetInsertPoint(after);
}

void FunctionEmitter::loop(const For& node) {
  TW_CHECK(node.loop_kind == LoopKind::Serial || node.loop_kind == LoopKind::Parallel,
           "a loop that lowering does not make");
  if (node.extent <= 0) return;
  if (const Annotation* mark = find_annotation(node.annotations, kIntrinsicMark))
    return intrinsic(node, *find_intrinsic(mark->value.text));
  if (node.loop_kind == LoopKind::Parallel && parallel_for_ && node.extent > 1) return parallel_loop(node);
  counted_loop(node);
}

void FunctionEmitter::counted_loop(const For& node) {
  const Annotation* mark = find_annotation(node.annotations, "hide_address");
  bool hides = mark && mark->value.integer != 0;
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  llvm::Value* counter = builder_.getInt64(0);
  llvm::PHINode* phi = nullptr;
  llvm::BasicBlock* head = nullptr;
  if (node.extent > 1) {
    head = block("loop");
    builder_.CreateBr(head);
    builder_.SetInsertPoint(head);
    counter = phi =
        builder_.CreatePHI(builder_.getInt64Ty(), 2, llvm::StringRef(node.var->name.data(), node.var->name.size()));
  }
  enter_scope(hides);
  std::size_t known = ranges_.size();
  bind({node.var, counter, {0, node.extent - 1}});
  const Annotation* ahead = find_annotation(node.annotations, "prefetch");
  Prefetching outside = ahead ? std::exchange(prefetching_, {node.var, ahead->value.integer, {}}) : Prefetching{};
  stmt(node.body);
  if (ahead) prefetching_ = std::move(outside);
  ranges_.shrink(known);
  leave_scope(hides);
  if (!phi) return;
  llvm::Value* next = builder_.CreateAdd(phi, builder_.getInt64(1), "", true, true);
  llvm::Value* goes_on = builder_.CreateICmpNE(next, builder_.getInt64(node.extent));
  llvm::BasicBlock* after = block("done");
  llvm::BranchInst* back = builder_.CreateCondBr(goes_on, head, after);
  phi->addIncoming(builder_.getInt64(0), before);
  phi->addIncoming(next, builder_.GetInsertBlock());
  builder_.SetInsertPoint(after);

  // Unrolling and vectorizing are the schedule's business.
  llvm::LLVMContext& context = function_->getContext();
  auto text = [&](const char* name) { return llvm::MDString::get(context, name); };
  llvm::Metadata* off = llvm::ConstantAsMetadata::get(builder_.getFalse());
  llvm::MDNode* no_unroll = llvm::MDNode::get(context, {text("llvm.loop.unroll.disable")});
  llvm::MDNode* no_vectors = llvm::MDNode::get(context, {text("llvm.loop.vectorize.enable"), off});
  llvm::MDNode* id = llvm::MDNode::getDistinct(context, {nullptr, no_unroll, no_vectors});
  id->replaceOperandWith(0, id);
  back->setMetadata(llvm::LLVMContext::MD_loop, id);
}

llvm::AllocaInst* FunctionEmitter::local(llvm::Type* type) {
  llvm::IRBuilderBase::InsertPointGuard guard(builder_);
  llvm::BasicBlock& entry = function_->getEntryBlock();
  builder_.SetInsertPoint(&entry, entry.begin());
  llvm::AllocaInst* place = builder_.CreateAlloca(type);
  place->setAlignment(llvm::Align(64));
  return place;
}

void FunctionEmitter::alloc(const Alloc& node) {
  llvm::Type* element = memory_type(node.buffer->dtype);
  llvm::AllocaInst* place = local(llvm::ArrayType::get(element, static_cast<u64>(elements_of(node.buffer))));
  bool keeps_lanes = node.buffer->scope == Scope::Register && !uses_same_lanes(node);
  buffers_.push_back({.buffer = node.buffer, .pointer = place, .keeps_lanes = keeps_lanes});
  stmt(node.body);
  buffers_.pop_back();
}

// task(context, i, worker) for every i, through the caller's parallel_for or, without one, in turn.
void FunctionEmitter::parallel_loop(const For& node) {
  LiveIns ins = live_ins(&node);
  std::vector<BoundBuffer> outer;
  for (const Buffer* buffer : ins.buffers) outer.push_back(find(buffer));
  llvm::Function* task = module_.make_task(node, ins, outer, ranges_);
  llvm::StructType* type = module_.context_type(ins);
  llvm::Value* context = local(type);
  unsigned field = 0;
  auto put = [&](llvm::Value* value) { builder_.CreateStore(value, builder_.CreateStructGEP(type, context, field++)); };
  put(scratch_);
  for (const BoundBuffer& buffer : outer) put(buffer.pointer);
  for (const Var* var : ins.vars) put(value(var));

  llvm::Value *zero = builder_.getInt64(0), *count = builder_.getInt64(node.extent);
  llvm::BasicBlock *serial = block("serial"), *pooled = block("pooled"), *after = block("joined");
  builder_.CreateCondBr(builder_.CreateIsNull(parallel_for_), serial, pooled);
  builder_.SetInsertPoint(pooled);
  llvm::Type *pointer = builder_.getPtrTy(), *i64_type = builder_.getInt64Ty();
  auto* hook = llvm::FunctionType::get(builder_.getVoidTy(), {pointer, i64_type, pointer, pointer}, false);
  builder_.CreateCall(hook, parallel_for_, {pool_, count, task, context});
  builder_.CreateBr(after);

  builder_.SetInsertPoint(serial);
  llvm::BasicBlock* each = block("each");
  builder_.CreateBr(each);
  builder_.SetInsertPoint(each);
  llvm::PHINode* index = builder_.CreatePHI(i64_type, 2);
  builder_.CreateCall(task, {context, index, zero});
  llvm::Value* next = builder_.CreateAdd(index, builder_.getInt64(1), "", true, true);
  builder_.CreateCondBr(builder_.CreateICmpNE(next, count), each, after);
  index->addIncoming(zero, serial);
  index->addIncoming(next, each);
  builder_.SetInsertPoint(after);
}

}  // namespace tw::codegen
