#include "backends/gpu_source/index_width.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "dsl/analysis/affine.h"
#include "dsl/ir/walk.h"

namespace tw::gpu {
namespace {

bool is_wide(const IntImm* imm) { return imm->value > INT32_MAX || imm->value < INT32_MIN; }

class IndexWidth {
 public:
  // Looks at everything below; false once something does not fit.
  bool fits(const Stmt* s) {
    const For* loop = as<For>(s);
    std::size_t known = ranges_.size();
    if (loop) {
      fits_ = fits_ && loop->extent <= INT32_MAX;
      ranges_.set_extent(loop->var, loop->extent);
    }
    fits_all(s);
    ranges_.shrink(known);
    return fits_;
  }

 private:
  void fits(const Expr* e) {
    if (e->type.dtype != DType::I64) return fits_all(e);
    magnitude(e);
  }

  void fits_all(const Node* node) {
    for_each_child(node, [&](const auto* child) {
      if (fits_) fits(child);
    });
  }

  // No value of the expression is further from 0. What is 64-bit in the text by itself counts as 0: it makes what it is
  // part of 64-bit, too.
  double magnitude(const Expr* e) {
    double bound = bound_of(e);
    if (bound <= INT32_MAX) return bound;
    // Cheap bounds know nothing of signs and of terms that cancel out.
    std::optional<Interval> range = interval_of(e, ranges_);
    fits_ = fits_ && range && range->min >= INT32_MIN && range->max <= INT32_MAX;
    return std::min(bound, -static_cast<double>(INT32_MIN));
  }

  double bound_of(const Expr* e) {
    switch (e->kind) {
      case Kind::IntImm: {
        const IntImm* imm = as<IntImm>(e);
        return is_wide(imm) ? 0 : std::abs(static_cast<double>(imm->value));
      }
      case Kind::Var: {
        const Interval* range = ranges_.find(as<Var>(e));
        return range ? static_cast<double>(std::max(range->max, -range->min)) : INFINITY;
      }
      case Kind::Unary:
        return magnitude(as<Unary>(e)->value);
      case Kind::Broadcast:
        return magnitude(as<Broadcast>(e)->value);
      case Kind::Ramp:
        return magnitude(as<Ramp>(e)->base) + magnitude(as<Ramp>(e)->stride) * (e->type.lanes - 1);
      case Kind::Binary:
        return bound_of_binary(as<Binary>(e));
      case Kind::Select:
        fits(as<Select>(e)->condition);
        return std::max(magnitude(as<Select>(e)->then), magnitude(as<Select>(e)->otherwise));
      default:
        fits_all(e);
        return 0;
    }
  }

  double bound_of_binary(const Binary* e) {
    double a = magnitude(e->a), b = magnitude(e->b);
    switch (e->op) {
      case BinaryOp::Mul:
        return a * b;
      case BinaryOp::Min:
      case BinaryOp::Max:
        return std::max(a, b);
      case BinaryOp::FloorDiv:
        return a;
      case BinaryOp::FloorMod:
        return b;
      default:
        return a + b;
    }
  }

  VarRanges ranges_;
  bool fits_ = true;
};

}  // namespace

bool fits_int32(const GpuKernel& kernel) { return IndexWidth().fits(kernel.body); }

bool is_of_loops(const Expr* e) {
  bool out = true;
  walk(e, [&](const Node* node) {
    const IntImm* imm = as<IntImm>(node);
    out = out && node->kind != Kind::Load && node->kind != Kind::Cast && !(imm && is_wide(imm));
    return out;
  });
  return out;
}

}  // namespace tw::gpu
