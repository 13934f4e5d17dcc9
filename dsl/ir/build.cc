#include "dsl/ir/build.h"

#include <algorithm>
#include <cmath>

#include "dsl/base/check.h"
#include "dsl/ir/comparison.h"

namespace tw {
namespace {

// Wraps, as machine code does; division of the smallest integer by -1 would be a trap.
i64 wrapped(u64 value) { return static_cast<i64>(value); }

i64 floor_div(i64 a, i64 b) {
  if (b == -1) return wrapped(0 - static_cast<u64>(a));
  i64 q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

}  // namespace

std::optional<i64> fold(BinaryOp op, i64 a, i64 b) {
  switch (op) {
    case BinaryOp::Add:
      return wrapped(static_cast<u64>(a) + static_cast<u64>(b));
    case BinaryOp::Sub:
      return wrapped(static_cast<u64>(a) - static_cast<u64>(b));
    case BinaryOp::Mul:
      return wrapped(static_cast<u64>(a) * static_cast<u64>(b));
    case BinaryOp::Div:
      return std::nullopt;
    case BinaryOp::FloorDiv:
      return b == 0 ? std::nullopt : std::optional(floor_div(a, b));
    case BinaryOp::FloorMod:
      return b == 0 ? std::nullopt : std::optional(b == -1 ? 0 : a - floor_div(a, b) * b);
    case BinaryOp::Min:
      return std::min(a, b);
    case BinaryOp::Max:
      return std::max(a, b);
    case BinaryOp::Lt:
    case BinaryOp::Le:
    case BinaryOp::Gt:
    case BinaryOp::Ge:
    case BinaryOp::Eq:
    case BinaryOp::Ne:
      return holds(op, a, b);
    case BinaryOp::And:
      return a && b;
    case BinaryOp::Or:
      return a || b;
  }
  return std::nullopt;
}

const Expr* Build::integer(i64 value, DType dtype) const {
  return arena.make<IntImm>(Expr{{Kind::IntImm}, {dtype, 1}}, value);
}

const Expr* Build::number(double value, DType dtype) const {
  if (is_int(dtype)) return integer(static_cast<i64>(value), dtype);
  return arena.make<FloatImm>(Expr{{Kind::FloatImm}, {dtype, 1}}, value);
}

const Var* Build::var(u32 id, Str name) const { return arena.make<Var>(Expr{{Kind::Var}, {DType::I64, 1}}, id, name); }

const Expr* Build::cast(DType dtype, const Expr* value) const {
  if (value->type.dtype == dtype) return value;
  if (const FloatImm* imm = as<FloatImm>(value); imm && is_float(dtype)) return number(imm->value, dtype);
  if (const IntImm* imm = as<IntImm>(value); imm && is_float(dtype) && std::abs(imm->value) < (1 << 10)) {
    return number(static_cast<double>(imm->value), dtype);
  }
  return arena.make<Cast>(Expr{{Kind::Cast}, {dtype, value->type.lanes}}, value);
}

const Expr* Build::unary(UnaryOp op, const Expr* value) const {
  if (const FloatImm* imm = as<FloatImm>(value); imm && op == UnaryOp::Neg) return number(-imm->value, imm->type.dtype);
  if (const IntImm* imm = as<IntImm>(value)) {
    return integer(op == UnaryOp::Neg ? -imm->value : !imm->value, imm->type.dtype);
  }
  return arena.make<Unary>(Expr{{Kind::Unary}, value->type}, op, value);
}

const Expr* Build::binary(BinaryOp op, const Expr* a, const Expr* b) const {
  TW_CHECK(a->type == b->type, "operands of different types");
  Type type = is_comparison(op) ? Type{DType::Bool, a->type.lanes} : a->type;
  std::optional<i64> x = constant_of(a), y = constant_of(b);
  if (x && y && (a->type.dtype == DType::I64 || a->type.dtype == DType::Bool)) {
    if (std::optional<i64> value = fold(op, *x, *y)) return integer(*value, type.dtype);
  }
  if (a->type.dtype == DType::I64 || a->type.dtype == DType::Bool) {
    switch (op) {
      case BinaryOp::Add:
        if (x) return binary(op, b, a);  // constants to the right
        if (y && *y == 0) return a;
        if (const Binary* inner = as<Binary>(a); inner && y && inner->op == BinaryOp::Add) {
          if (std::optional<i64> c = constant_of(inner->b)) return add(inner->a, integer(*c + *y));
        }
        break;
      case BinaryOp::Sub:
        if (y) return add(a, integer(-*y));
        if (a == b) return integer(0);
        break;
      case BinaryOp::Mul:
        if (x) return binary(op, b, a);
        if (y && *y == 1) return a;
        if (y && *y == 0) return b;
        break;
      case BinaryOp::FloorDiv:
        if (y && *y == 1) return a;
        if (x && *x == 0) return a;
        break;
      case BinaryOp::FloorMod:
        if (y && *y == 1) return integer(0);
        if (x && *x == 0) return a;
        break;
      case BinaryOp::Min:
      case BinaryOp::Max:
        if (a == b) return a;
        break;
      case BinaryOp::And:
        if (x) return *x ? b : a;
        if (y) return *y ? a : b;
        break;
      case BinaryOp::Or:
        if (x) return *x ? a : b;
        if (y) return *y ? b : a;
        break;
      case BinaryOp::Div:
      case BinaryOp::Lt:
      case BinaryOp::Le:
      case BinaryOp::Gt:
      case BinaryOp::Ge:
      case BinaryOp::Eq:
      case BinaryOp::Ne:
        break;
    }
  }
  return arena.make<Binary>(Expr{{Kind::Binary}, type}, op, a, b);
}

const Expr* Build::both(const Expr* a, const Expr* b) const {
  if (!a) return b;
  if (!b) return a;
  return binary(BinaryOp::And, a, b);
}

const Expr* Build::select(const Expr* condition, const Expr* then, const Expr* otherwise) const {
  TW_CHECK(then->type == otherwise->type, "sides of a select have different types");
  if (std::optional<i64> known = constant_of(condition)) return *known ? then : otherwise;
  return arena.make<Select>(Expr{{Kind::Select}, then->type}, condition, then, otherwise);
}

const Expr* Build::call(Function function, Array<const Expr*> arguments) const {
  TW_CHECK(!arguments.empty() && static_cast<int>(arguments.size()) == arity_of(function));
  Type type = arguments[0]->type;
  if (combined_by(function)) type.lanes = 1;
  return arena.make<Call>(Expr{{Kind::Call}, type}, function, arguments);
}

const Expr* Build::load(const Buffer* buffer, Array<const Expr*> indices) const {
  std::uint16_t lanes = 1;
  for (const Expr* index : indices) lanes = std::max(lanes, index->type.lanes);
  return arena.make<Load>(Expr{{Kind::Load}, {buffer->dtype, lanes}}, buffer, indices);
}

const Expr* Build::ramp(const Expr* base, const Expr* stride, int lanes) const {
  if (lanes == 1) return base;
  return arena.make<Ramp>(Expr{{Kind::Ramp}, {base->type.dtype, static_cast<std::uint16_t>(lanes)}}, base, stride);
}

const Expr* Build::broadcast(const Expr* value, int lanes) const {
  if (lanes == 1) return value;
  return arena.make<Broadcast>(Expr{{Kind::Broadcast}, {value->type.dtype, static_cast<std::uint16_t>(lanes)}}, value);
}

const Stmt* Build::store(const Buffer* buffer, Array<const Expr*> indices, const Expr* value) const {
  return store(arena.list<StoreTarget>({{buffer, indices}}), arena.list<const Expr*>({value}));
}

const Stmt* Build::store(Array<StoreTarget> targets, Array<const Expr*> values) const {
  TW_CHECK(targets.size() == values.size());
  return arena.make<Store>(Stmt{{Kind::Store}}, targets, values);
}

const Stmt* Build::seq(Array<const Stmt*> stmts) const {
  List<const Stmt*> flat;
  for (const Stmt* stmt : stmts) {
    if (const Seq* inner = as<Seq>(stmt)) {
      flat.insert(flat.end(), inner->stmts.begin(), inner->stmts.end());
    } else if (stmt) {
      flat.push_back(stmt);
    }
  }
  if (flat.empty()) return nullptr;
  if (flat.size() == 1) return flat[0];
  return arena.make<Seq>(Stmt{{Kind::Seq}}, arena.copy(flat));
}

const Stmt* Build::if_then(const Expr* condition, const Stmt* then, const Stmt* otherwise) const {
  if (!condition || (!then && !otherwise)) return then;
  if (std::optional<i64> known = constant_of(condition)) return *known ? then : otherwise;
  return arena.make<If>(Stmt{{Kind::If}}, condition, then, otherwise);
}

const For* Build::loop(LoopId id, const Var* var, i64 extent, const Stmt* body, LoopKind kind) const {
  return arena.make<For>(Stmt{{Kind::For}}, id, var, extent, kind, Str{}, Array<Annotation>{}, body);
}

const Stmt* Build::alloc(const Buffer* buffer, const Stmt* body) const {
  return arena.make<Alloc>(Stmt{{Kind::Alloc}}, buffer, body);
}

const Stmt* Build::remake(const If& n) const {
  if (n.then) return if_then(n.condition, n.then, n.otherwise);
  return n.otherwise ? if_then(unary(UnaryOp::Not, n.condition), n.otherwise) : nullptr;
}

const Stmt* Build::remake(const Block& n) const {
  if (!n.body) return nullptr;
  Block* copy = arena.make<Block>(n);
  if (is_constant(n.predicate, 1)) copy->predicate = nullptr;
  return copy;
}

const For* Build::with_body(const For* loop, const Stmt* body) const {
  if (loop->body == body) return loop;
  For* copy = arena.make<For>(*loop);
  copy->body = body;
  return copy;
}

const For* Build::with_kind(const For* loop, LoopKind kind, Str thread) const {
  For* copy = arena.make<For>(*loop);
  copy->loop_kind = kind;
  copy->thread = thread;
  return copy;
}

const Block* Build::with_body(const Block* block, const Stmt* init, const Stmt* body) const {
  if (block->init == init && block->body == body) return block;
  Block* copy = arena.make<Block>(*block);
  copy->init = init;
  copy->body = body;
  return copy;
}

const Block* Build::with_bindings(const Block* block, Array<const Expr*> bindings, const Expr* predicate) const {
  Block* copy = arena.make<Block>(*block);
  copy->bindings = bindings;
  copy->predicate = predicate;
  return copy;
}

}  // namespace tw
