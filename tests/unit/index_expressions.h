// Random integer expressions and their values, for the tests of dsl/analysis: what it claims is compared with every
// value.
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "dsl/analysis/affine.h"
#include "dsl/base/rng.h"

namespace tw {

// The value of an I64 or bool expression without loads; division by zero does not occur in these tests.
inline i64 value_of(const Expr* e, const std::vector<i64>& values) {
  if (const IntImm* imm = as<IntImm>(e)) return imm->value;
  if (const Var* var = as<Var>(e)) return values[var->id];
  if (const Cast* cast = as<Cast>(e)) return value_of(cast->value, values);
  if (const Unary* unary = as<Unary>(e)) {
    i64 value = value_of(unary->value, values);
    return unary->op == UnaryOp::Neg ? -value : !value;
  }
  if (const Select* select = as<Select>(e)) {
    return value_of(value_of(select->condition, values) ? select->then : select->otherwise, values);
  }
  const Binary* binary = as<Binary>(e);
  TW_CHECK(binary, "an expression that the tests do not make");
  i64 a = value_of(binary->a, values), b = value_of(binary->b, values);
  switch (binary->op) {
    case BinaryOp::Add:
      return a + b;
    case BinaryOp::Sub:
      return a - b;
    case BinaryOp::Mul:
      return a * b;
    case BinaryOp::FloorDiv:
      return (a - ((a % b + b) % b)) / b;
    case BinaryOp::FloorMod:
      return (a % b + b) % b;
    case BinaryOp::Min:
      return std::min(a, b);
    case BinaryOp::Max:
      return std::max(a, b);
    case BinaryOp::Lt:
      return a < b;
    case BinaryOp::Le:
      return a <= b;
    case BinaryOp::Gt:
      return a > b;
    case BinaryOp::Ge:
      return a >= b;
    case BinaryOp::Eq:
      return a == b;
    case BinaryOp::Ne:
      return a != b;
    case BinaryOp::And:
      return a && b;
    case BinaryOp::Or:
      return a || b;
    case BinaryOp::Div:
      break;
  }
  TW_CHECK(false, "float division of integers");
}

// Variables with small ranges, and every assignment of values to them.
struct SmallWorld {
  Arena arena;
  Build build{arena};
  std::vector<const Var*> vars;
  std::vector<Interval> intervals;
  VarRanges ranges;

  explicit SmallWorld(std::vector<Interval> given) : intervals(std::move(given)) {
    const char* names[] = {"a", "b", "c", "f"};
    for (std::size_t i = 0; i < intervals.size(); ++i) {
      vars.push_back(build.var(static_cast<u32>(i), names[i]));
      ranges.set(vars[i], intervals[i]);
    }
  }

  void for_all(const std::function<void(const std::vector<i64>&)>& visit) const {
    std::vector<i64> values;
    for (const Interval& interval : intervals) values.push_back(interval.min);
    for (;;) {
      visit(values);
      std::size_t i = 0;
      while (i < values.size() && values[i] == intervals[i].max) {
        values[i] = intervals[i].min;
        ++i;
      }
      if (i == values.size()) return;
      ++values[i];
    }
  }
};

// Shaped like what schedules make: sums with coefficients, // and % by small constants, now and then min, max, select,
// products.
class RandomExpressions {
 public:
  RandomExpressions(SmallWorld& world, Rng& rng) : world_(world), rng_(rng) {}

  const Expr* index(int depth) {
    if (depth == 0) return leaf();
    const Build& build = world_.build;
    constexpr i64 divisors[] = {2, 3, 4, 6, 8, 12};
    switch (rng_.below(12)) {
      case 0:
      case 1:
      case 2:
        return build.add(index(depth - 1), index(depth - 1));
      case 3:
        return build.sub(index(depth - 1), index(depth - 1));
      case 4:
      case 5:
        return build.mul(index(depth - 1), divisors[rng_.below(6)]);
      case 6:
      case 7:
        return build.floor_div(index(depth - 1), build.integer(divisors[rng_.below(6)]));
      case 8:
      case 9:
        return build.floor_mod(index(depth - 1), build.integer(divisors[rng_.below(6)]));
      case 10:
        return build.binary(rng_.below(2) ? BinaryOp::Min : BinaryOp::Max, index(depth - 1), index(depth - 1));
      default:
        return rng_.below(2) ? build.select(condition(depth - 1), index(depth - 1), index(depth - 1))
                             : build.mul(index(depth - 1), index(depth - 1));
    }
  }
  const Expr* condition(int depth) {
    const Build& build = world_.build;
    if (depth > 1 && rng_.below(4) == 0) {
      return build.binary(rng_.below(2) ? BinaryOp::And : BinaryOp::Or, condition(depth - 1), condition(depth - 1));
    }
    if (depth > 1 && rng_.below(8) == 0) return build.unary(UnaryOp::Not, condition(depth - 1));
    auto op = static_cast<BinaryOp>(static_cast<int>(BinaryOp::Lt) + rng_.below(6));
    return build.binary(op, index(depth),
                        rng_.below(3) ? build.integer(rng_.below(40) - 5) : index(std::max(depth - 1, 0)));
  }

 private:
  const Expr* leaf() {
    if (rng_.below(4) == 0) return world_.build.integer(rng_.below(20) - 5);
    return world_.vars[rng_.below(static_cast<i64>(world_.vars.size()))];
  }
  SmallWorld& world_;
  Rng& rng_;
};

}  // namespace tw
