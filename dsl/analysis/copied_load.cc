#include "dsl/analysis/copied_load.h"

#include <cmath>

#include "dsl/ir/build.h"

namespace tw {
namespace {

bool is_zero(const Expr* e) {
  if (const Broadcast* all = as<Broadcast>(e)) return is_zero(all->value);
  if (const FloatImm* number = as<FloatImm>(e)) return number->value == 0 && !std::signbit(number->value);
  return is_constant(e, 0);
}

}  // namespace

CopiedLoad copied_load(const Expr* value) {
  CopiedLoad out{};
  for (const Select* fill = as<Select>(value); fill && is_zero(fill->otherwise); fill = as<Select>(value)) {
    out.inside.push_back(fill->condition);
    value = fill->then;
  }
  out.load = as<Load>(value);
  return out;
}

}  // namespace tw
