#include "costmodel/thread_work.h"

#include <algorithm>

#include "dsl/analysis/affine.h"

namespace tw {
namespace {

constexpr double kReciprocal = 6, kQuotient = 2;     // of a float division: what depends on the divisor alone, and the rest
constexpr double kIntegerDivision = 8, kMath = 10;
constexpr double kWidened = 1, kNarrowed = 0.5;      // conversions of halves; two go into one word at once

bool is_half(DType type) { return type == DType::F16 || type == DType::BF16; }
bool is_number(const Expr* e) { return as<IntImm>(e) || as<FloatImm>(e); }
const Binary* product(const Expr* e) {
  const Binary* binary = as<Binary>(e);
  return binary && binary->op == BinaryOp::Mul ? binary : nullptr;
}

class Counter {
 public:
  Counter(const FlatProgram& program, const FlatStore& store, const std::vector<ThreadLoop>& loops, bool is_mma)
      : program_(program), store_(store), loops_(loops), is_mma_(is_mma) {}

  // Adds the work of an expression. The result: the loops that change it, a bit for each.
  u64 visit(const Expr* e) {
    switch (e->kind) {
      case Kind::IntImm:
      case Kind::FloatImm:
        return 0;
      case Kind::Load:
        return moved(as<Load>(e)->indices);
      case Kind::Cast: {
        const Expr* value = as<Cast>(e)->value;
        u64 by = visit(value);
        if (is_mma_ || is_half(e->type.dtype) == is_half(value->type.dtype)) return by;
        return add(is_half(value->type.dtype) ? kWidened : kNarrowed, by);
      }
      case Kind::Unary:
        return add(as<Unary>(e)->op == UnaryOp::Not ? 1 : 0, visit(as<Unary>(e)->value));  // signs are part of what follows
      case Kind::Binary:
        return visit_binary(as<Binary>(e));
      case Kind::Select: {
        const Select* select = as<Select>(e);
        return add(1, visit(select->condition) | visit(select->then) | visit(select->otherwise));
      }
      case Kind::Call: {
        u64 by = 0;
        for (const Expr* argument : as<Call>(e)->arguments) by |= visit(argument);
        return add(kMath, by);
      }
      default:
        return ~u64{0};  // variables: of any loop
    }
  }
  double work() const { return work_; }

 private:
  u64 visit_binary(const Binary* e) {
    u64 a = visit(e->a), b = same_expr(e->a, e->b) ? a : visit(e->b), by = a | b;
    bool is_sum = e->op == BinaryOp::Add || e->op == BinaryOp::Sub;
    if (is_sum && is_float(e->type.dtype) && (product(e->a) || product(e->b))) return by;  // the product adds
    if (e->op == BinaryOp::FloorDiv || e->op == BinaryOp::FloorMod) return add(kIntegerDivision, by);
    if (e->op != BinaryOp::Div) return add(1, by);
    if (is_number(e->b)) return add(1, by);
    add(kReciprocal, b);
    return add(kQuotient, by);
  }

  u64 add(double instructions, u64 by) {
    work_ += instructions * runs(by);
    return by;
  }

  // How often a thread computes what these loops change.
  double runs(u64 by) const {
    double out = 1;
    std::size_t deepest = loops_.size();
    while (deepest > 0 && (deepest > 64 || !(by >> (deepest - 1) & 1))) --deepest;
    for (std::size_t p = 0; p < deepest; ++p) {
      if (!loops_[p].is_unrolled || (by >> p & 1)) out *= loops_[p].extent;
    }
    return out;
  }

  u64 moved(Array<const Expr*> indices) const {
    u64 out = 0;
    for (u32 a = store_.first_access; a < store_.first_access + store_.accesses; ++a) {
      const FlatAccess& access = program_.accesses[a];
      if (access.indices.data() != indices.data()) continue;
      if (access.is_irregular || store_.depth > 64) return ~u64{0};
      const FlatDim* dims = program_.dims_of(access);
      for (u32 p = 0; p < store_.depth; ++p) {
        bool moves = std::any_of(dims, dims + access.rank, [&](const FlatDim& dim) { return dim.span[p] > 0; });
        out |= u64{moves} << p;
      }
      return out;
    }
    return ~u64{0};
  }

  const FlatProgram& program_;
  const FlatStore& store_;
  const std::vector<ThreadLoop>& loops_;
  bool is_mma_;
  double work_ = 0;
};

}  // namespace

double thread_work(const FlatProgram& program, const FlatStore& store, const std::vector<ThreadLoop>& loops, bool is_mma) {
  Counter counter(program, store, loops, is_mma);
  for (const Expr* value : store.node->values) counter.visit(value);
  return counter.work();
}

}  // namespace tw
