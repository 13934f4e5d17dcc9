#include "dsl/passes/conditions.h"

namespace tw {

void split_conjunction(const Expr* condition, Conjunction& out) {
  if (is_constant(condition, 1)) return;
  const Binary* both = as<Binary>(condition);
  if (!both || both->op != BinaryOp::And) return out.push_back(condition);
  split_conjunction(both->a, out);
  split_conjunction(both->b, out);
}

const Expr* join_conjunction(Arena& arena, const Conjunction& parts) {
  const Expr* out = nullptr;
  for (const Expr* part : parts) out = Build{arena}.both(out, part);
  return out;
}

}  // namespace tw
