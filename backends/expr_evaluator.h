// What an expression is, operation by operation, rounded to its type each time: the part that all judges share. Derived
// gives
//
//   Scalar variable(const Var*);            the value of a variable
//   Scalar load(const Load*, int lane);     an element of a buffer
//   bool step();                            before each expression; false once something has failed
//   void fail(parts...);                    notes an error; the first one counts
#pragma once
#include "backends/interpreter_scalar.h"

namespace tw {

template <class Derived>
class ExprEvaluator {
 protected:
  // One lane of `e`; zero after an error.
  Scalar eval(const Expr* e, int lane = 0) {
    if (!self().step()) return {};
    switch (e->kind) {
      case Kind::IntImm:
        return {static_cast<const IntImm*>(e)->value};
      case Kind::FloatImm:
        return {0, round_to(e->type.dtype, static_cast<const FloatImm*>(e)->value)};
      case Kind::Var:
        return self().variable(static_cast<const Var*>(e));
      case Kind::Cast: {
        auto* n = static_cast<const Cast*>(e);
        return convert_scalar(e->type.dtype, n->value->type.dtype, eval(n->value, lane));
      }
      case Kind::Unary: {
        auto* n = static_cast<const Unary*>(e);
        Scalar value = eval(n->value, lane);
        if (n->op == UnaryOp::Not) return {!value.i};
        return is_float(e->type.dtype) ? Scalar{0, -value.f} : apply_binary(BinaryOp::Sub, e->type.dtype, {}, value);
      }
      case Kind::Binary:
        return binary(static_cast<const Binary*>(e), lane);
      case Kind::Select: {
        auto* n = static_cast<const Select*>(e);
        return eval(eval(n->condition, n->condition->type.lanes == 1 ? 0 : lane).i ? n->then : n->otherwise, lane);
      }
      case Kind::Call:
        return call(static_cast<const Call*>(e), lane);
      case Kind::Load:
        return self().load(static_cast<const Load*>(e), lane);
      case Kind::Ramp: {
        auto* n = static_cast<const Ramp*>(e);
        Scalar steps = convert_scalar(e->type.dtype, DType::I64, {lane});
        return apply_binary(BinaryOp::Add, e->type.dtype, eval(n->base),
                            apply_binary(BinaryOp::Mul, e->type.dtype, steps, eval(n->stride)));
      }
      case Kind::Broadcast:
        return eval(static_cast<const Broadcast*>(e)->value);
      default:
        self().fail("an expression of an unknown kind");
        return {};
    }
  }

 private:
  Derived& self() { return *static_cast<Derived*>(this); }

  Scalar binary(const Binary* n, int lane) {
    Scalar a = eval(n->a, lane), b = eval(n->b, lane);
    bool divides = n->op == BinaryOp::FloorDiv || n->op == BinaryOp::FloorMod;
    if (!divides || b.i != 0) return apply_binary(n->op, n->a->type.dtype, a, b);
    self().fail("division by zero");
    return {};
  }

  Scalar call(const Call* n, int lane) {
    if (n->function == Function::Within) return within(n);
    if (std::optional<BinaryOp> op = combined_by(n->function)) {
      Scalar all = eval(n->arguments[0]);
      for (int i = 1; i < n->arguments[0]->type.lanes; ++i)
        all = apply_binary(*op, n->type.dtype, all, eval(n->arguments[0], i));
      return all;
    }
    Scalar a = eval(n->arguments[0], lane);
    return apply_function(n->function, n->type.dtype, a,
                          n->arguments.size() > 1 ? eval(n->arguments[1], lane) : Scalar{});
  }

  Scalar within(const Call* claim) {
    Scalar index = eval(claim->arguments[0]);
    i64 min = eval(claim->arguments[1]).i, extent = eval(claim->arguments[2]).i;
    if (index.i < min || index.i >= min + extent) {
      self().fail("an index is ", index.i, ", said to be within [", min, ", ", min + extent, ")");
    }
    return index;
  }
};

}  // namespace tw
