// Makes nodes. Expressions are folded while they are built (constants, x + 0, x * 1, x * 0 for integers, nested
// constant sums), so that printed programs stay short; deeper rewriting is dsl/analysis/simplify.h.
#pragma once
#include "dsl/base/list.h"
#include "dsl/ir/nodes.h"

namespace tw {

struct Build {
  Arena& arena;

  const Expr* integer(i64 value, DType dtype = DType::I64) const;
  const Expr* number(double value,
                     DType dtype) const;   // of any dtype: IntImm for integers and bool, FloatImm for floats
  const Var* var(u32 id, Str name) const;  // I64
  const Expr* cast(DType dtype, const Expr* value) const;
  const Expr* unary(UnaryOp op, const Expr* value) const;
  const Expr* binary(BinaryOp op, const Expr* a, const Expr* b) const;  // a and b have equal types
  const Expr* add(const Expr* a, const Expr* b) const { return binary(BinaryOp::Add, a, b); }
  const Expr* sub(const Expr* a, const Expr* b) const { return binary(BinaryOp::Sub, a, b); }
  const Expr* mul(const Expr* a, const Expr* b) const { return binary(BinaryOp::Mul, a, b); }
  const Expr* floor_div(const Expr* a, const Expr* b) const { return binary(BinaryOp::FloorDiv, a, b); }
  const Expr* floor_mod(const Expr* a, const Expr* b) const { return binary(BinaryOp::FloorMod, a, b); }
  const Expr* lt(const Expr* a, const Expr* b) const { return binary(BinaryOp::Lt, a, b); }
  const Expr* add(const Expr* a, i64 b) const { return add(a, integer(b)); }
  const Expr* mul(const Expr* a, i64 b) const { return mul(a, integer(b)); }
  const Expr* lt(const Expr* a, i64 b) const { return lt(a, integer(b)); }
  // a and b; either may be null, meaning true.
  const Expr* both(const Expr* a, const Expr* b) const;
  const Expr* select(const Expr* condition, const Expr* then, const Expr* otherwise) const;
  const Expr* call(Function function, Array<const Expr*> arguments) const;
  const Expr* load(const Buffer* buffer, Array<const Expr*> indices) const;
  const Expr* ramp(const Expr* base, const Expr* stride, int lanes) const;
  const Expr* broadcast(const Expr* value, int lanes) const;

  const Stmt* store(const Buffer* buffer, Array<const Expr*> indices, const Expr* value) const;
  const Stmt* store(Array<StoreTarget> targets, Array<const Expr*> values) const;
  // Nested sequences are flattened, null entries dropped; one statement stays itself; none gives null.
  const Stmt* seq(Array<const Stmt*> stmts) const;
  const Stmt* seq(std::initializer_list<const Stmt*> stmts) const {
    return seq(Array<const Stmt*>(stmts.begin(), stmts.size()));
  }
  const Stmt* if_then(const Expr* condition, const Stmt* then, const Stmt* otherwise = nullptr) const;
  const For* loop(LoopId id, const Var* var, i64 extent, const Stmt* body, LoopKind kind = LoopKind::Serial) const;
  const Stmt* alloc(const Buffer* buffer, const Stmt* body) const;

  // A node whose children were replaced: folded and typed again, as when it was first built. Null for a statement that
  // has nothing left to do.
  const Expr* remake(const Cast& n) const { return cast(n.type.dtype, n.value); }
  const Expr* remake(const Unary& n) const { return unary(n.op, n.value); }
  const Expr* remake(const Binary& n) const { return binary(n.op, n.a, n.b); }
  const Expr* remake(const Select& n) const { return select(n.condition, n.then, n.otherwise); }
  const Expr* remake(const Call& n) const { return call(n.function, n.arguments); }
  const Expr* remake(const Load& n) const { return load(n.buffer, n.indices); }
  const Expr* remake(const Ramp& n) const { return ramp(n.base, n.stride, n.type.lanes); }
  const Expr* remake(const Broadcast& n) const { return broadcast(n.value, n.type.lanes); }
  const Stmt* remake(const Store& n) const { return store(n.targets, n.values); }
  const Stmt* remake(const Seq& n) const { return seq(n.stmts); }
  const Stmt* remake(const If& n) const;
  const Stmt* remake(const For& n) const { return n.body ? arena.make<For>(n) : nullptr; }
  const Stmt* remake(const Block& n) const;
  const Stmt* remake(const Alloc& n) const { return n.body ? arena.make<Alloc>(n) : nullptr; }

  // Copies of a node with one thing changed.
  const For* with_body(const For* loop, const Stmt* body) const;
  const For* with_kind(const For* loop, LoopKind kind, Str thread = {}) const;
  const Block* with_body(const Block* block, const Stmt* init, const Stmt* body) const;
  const Block* with_bindings(const Block* block, Array<const Expr*> bindings, const Expr* predicate) const;
};

// The value of an operation on integers; nothing for a division by zero.
std::optional<i64> fold(BinaryOp op, i64 a, i64 b);

// The value of an IntImm.
inline std::optional<i64> constant_of(const Expr* expr) {
  const IntImm* imm = as<IntImm>(expr);
  return imm ? std::optional(imm->value) : std::nullopt;
}
inline bool is_constant(const Expr* expr, i64 value) {
  const IntImm* imm = as<IntImm>(expr);
  return imm && imm->value == value;
}

}  // namespace tw
