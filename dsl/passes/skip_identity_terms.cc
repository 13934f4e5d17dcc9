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
    case BinaryOp::Add:
      return *value == 0;
    case BinaryOp::Max:
      return *value <= lowest_of(e->type.dtype);
    default:
      return false;
  }
}

// The Select in a term that makes it the identity where its condition does not hold.
const Select* guard_of(BinaryOp op, const Expr* term) {
  if (const Select* select = as<Select>(term)) return is_identity(op, select->otherwise) ? select : nullptr;
  if (const Cast* cast = as<Cast>(term)) return op == BinaryOp::Add ? guard_of(op, cast->value) : nullptr;
  const Binary* product = as<Binary>(term);
  if (!product || product->op != BinaryOp::Mul || op != BinaryOp::Add) return nullptr;
  const Select* first = guard_of(op, product->a);
  return first ? first : guard_of(op, product->b);
}

std::optional<Guarded> guarded(const Build& build, BinaryOp op, const Expr* term) {
  if (!guard_of(op, term)) return std::nullopt;
  if (const Select* select = as<Select>(term)) return Guarded{select->condition, select->then};
  if (const Cast* cast = as<Cast>(term)) {
    std::optional<Guarded> inner = guarded(build, op, cast->value);
    return Guarded{inner->condition, build.cast(cast->type.dtype, inner->value)};
  }
  const Binary* product = as<Binary>(term);
  if (auto a = guarded(build, op, product->a)) return Guarded{a->condition, build.mul(a->value, product->b)};
  std::optional<Guarded> b = guarded(build, op, product->b);
  return Guarded{b->condition, build.mul(product->a, b->value)};
}

bool loads_target(const Expr* e, const StoreTarget& target) {
  const Load* load = as<Load>(e);
  return load && load->buffer == target.buffer && same_exprs(load->indices, target.indices);
}

// What a store combines with its target; null if it does nothing of the kind.
const Expr* term_of(const Store* store) {
  const Binary* update = store->targets.size() == 1 ? as<Binary>(store->values[0]) : nullptr;
  if (!update) return nullptr;
  if (loads_target(update->a, store->targets[0])) return update->b;
  return loads_target(update->b, store->targets[0]) ? update->a : nullptr;
}

const Stmt* skip(const Build& build, const Store* store) {
  const Expr* whole = term_of(store);
  const Binary* update = as<Binary>(store->values[0]);
  std::optional<Guarded> term = whole ? guarded(build, update->op, whole) : std::nullopt;
  if (!term) return store;
  const StoreTarget& target = store->targets[0];
  const Expr* a = whole == update->b ? update->a : term->value;
  const Expr* b = whole == update->b ? term->value : update->b;
  return build.if_then(term->condition, build.store(target.buffer, target.indices, build.binary(update->op, a, b)));
}

}  // namespace

const Select* skipped_term(const Store* store) {
  const Expr* term = term_of(store);
  return term ? guard_of(static_cast<const Binary*>(store->values[0])->op, term) : nullptr;
}

Program skip_identity_terms(Arena& arena, Program program) {
  Build build{arena};
  program.body = rewrite_stmts(arena, program.body, [&](const Stmt* s) {
    const Store* store = as<Store>(s);
    return store ? skip(build, store) : s;
  });
  return program;
}

}  // namespace tw
