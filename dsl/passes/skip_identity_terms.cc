#include "dsl/passes/skip_identity_terms.h"

#include <optional>

#include "dsl/analysis/affine.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

// A term that counts only where a condition holds, and its value there.
struct Guarded {
  const Expr* condition;
  const Expr* value;
};

std::optional<double> number_of(const Expr* e) {
  if (const IntImm* i = as<IntImm>(e)) return static_cast<double>(i->value);
  if (const FloatImm* f = as<FloatImm>(e)) return f->value;
  return std::nullopt;
}

// x op identity = x for every x of the type; sums and maxima are what padding feeds.
bool is_identity(BinaryOp op, const Expr* e) {
  std::optional<double> value = number_of(e);
  if (!value) return false;
  switch (op) {
    case BinaryOp::Add: return *value == 0;
    case BinaryOp::Max: return *value <= lowest_of(e->type.dtype);
    default: return false;
  }
}

std::optional<Guarded> guarded(const Build& build, BinaryOp op, const Expr* term) {
  if (const Select* select = as<Select>(term)) {
    if (is_identity(op, select->otherwise)) return Guarded{select->condition, select->then};
    return std::nullopt;
  }
  if (const Cast* cast = as<Cast>(term)) {
    std::optional<Guarded> inner = guarded(build, op, cast->value);
    if (inner && op == BinaryOp::Add) return Guarded{inner->condition, build.cast(cast->type.dtype, inner->value)};
    return std::nullopt;
  }
  const Binary* product = as<Binary>(term);
  if (!product || product->op != BinaryOp::Mul || op != BinaryOp::Add) return std::nullopt;
  if (auto a = guarded(build, op, product->a)) return Guarded{a->condition, build.mul(a->value, product->b)};
  if (auto b = guarded(build, op, product->b)) return Guarded{b->condition, build.mul(product->a, b->value)};
  return std::nullopt;
}

bool loads_target(const Expr* e, const StoreTarget& target) {
  const Load* load = as<Load>(e);
  return load && load->buffer == target.buffer &&
         same_exprs(load->indices, target.indices);
}

const Stmt* skip(const Build& build, const Store* store) {
  const Binary* update = store->targets.size() == 1 ? as<Binary>(store->values[0]) : nullptr;
  if (!update) return store;
  const StoreTarget& target = store->targets[0];
  bool target_first = loads_target(update->a, target);
  if (!target_first && !loads_target(update->b, target)) return store;
  std::optional<Guarded> term = guarded(build, update->op, target_first ? update->b : update->a);
  if (!term) return store;
  const Expr* a = target_first ? update->a : term->value;
  const Expr* b = target_first ? term->value : update->b;
  return build.if_then(term->condition, build.store(target.buffer, target.indices, build.binary(update->op, a, b)));
}

}  // namespace

Program skip_identity_terms(Arena& arena, Program program) {
  Build build{arena};
  program.body = rewrite_stmts(arena, program.body, [&](const Stmt* s) {
    const Store* store = as<Store>(s);
    return store ? skip(build, store) : s;
  });
  return program;
}

}  // namespace tw
