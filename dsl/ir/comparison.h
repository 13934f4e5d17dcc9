// What the comparisons of the IR mean, of numbers of any type.
#pragma once
#include "dsl/ir/nodes.h"

namespace tw {

inline bool is_comparison(BinaryOp op) { return op >= BinaryOp::Lt && op <= BinaryOp::Ne; }

// Does `a op b` hold? `op` is a comparison. Of a NaN only Ne holds.
template <class T>
bool holds(BinaryOp op, T a, T b) {
  if (op == BinaryOp::Lt) return a < b;
  if (op == BinaryOp::Le) return a <= b;
  if (op == BinaryOp::Gt) return a > b;
  if (op == BinaryOp::Ge) return a >= b;
  return op == BinaryOp::Eq ? a == b : a != b;
}

}  // namespace tw
