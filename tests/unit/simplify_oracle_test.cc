// The affine simplifier against z3, which knows nothing of it: on ranges that are too large for trying every value.
// Skipped where z3 was not there when this was built.
#include <gtest/gtest.h>

#include "dsl/analysis/simplify.h"
#include "dsl/ir/print.h"
#include "tests/unit/index_expressions.h"

#if TW_HAS_Z3
#include <z3++.h>
#endif

namespace tw {
namespace {

#if TW_HAS_Z3

// Expressions over the variables of a world as terms of z3. Divisors are positive: then its division rounds towards
// minus infinity, too.
class Terms {
 public:
  Terms(z3::context& context, const SmallWorld& world) : context_(context) {
    for (const Var* var : world.vars) vars_.push_back(context.int_const(std::string(var->name).c_str()));
  }

  z3::expr of(const Expr* e) {
    if (const IntImm* imm = as<IntImm>(e)) {
      return e->type.dtype == DType::Bool ? context_.bool_val(imm->value != 0)
                                          : context_.int_val(static_cast<std::int64_t>(imm->value));
    }
    if (const Var* var = as<Var>(e)) return vars_[var->id];
    if (const Unary* unary = as<Unary>(e)) return unary->op == UnaryOp::Neg ? -of(unary->value) : !of(unary->value);
    if (const Select* select = as<Select>(e))
      return z3::ite(of(select->condition), of(select->then), of(select->otherwise));
    const Binary* binary = as<Binary>(e);
    TW_CHECK(binary, "an expression that the tests do not make");
    return combine(binary->op, of(binary->a), of(binary->b));
  }
  z3::expr is_within(std::size_t var, Interval interval) {
    return vars_[var] >= context_.int_val(static_cast<std::int64_t>(interval.min)) &&
           vars_[var] <= context_.int_val(static_cast<std::int64_t>(interval.max));
  }

 private:
  static z3::expr combine(BinaryOp op, const z3::expr& a, const z3::expr& b) {
    switch (op) {
      case BinaryOp::Add:
        return a + b;
      case BinaryOp::Sub:
        return a - b;
      case BinaryOp::Mul:
        return a * b;
      case BinaryOp::FloorDiv:
        return a / b;
      case BinaryOp::FloorMod:
        return z3::mod(a, b);
      case BinaryOp::Min:
        return z3::ite(a < b, a, b);
      case BinaryOp::Max:
        return z3::ite(a > b, a, b);
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

  z3::context& context_;
  std::vector<z3::expr> vars_;
};

// What z3 says to claims about every value of the variables.
class Oracle {
 public:
  explicit Oracle(const SmallWorld& world) : terms(context_, world), world_(world) {}
  // False, with the values that contradict it, if the claim does not hold. Too hard for z3: not counted as settled.
  testing::AssertionResult holds(const z3::expr& claim) {
    z3::solver solver(context_);
    z3::params limits(context_);
    limits.set("rlimit", 400000u);  // steps, so that every run settles the same claims
    solver.set(limits);
    for (std::size_t i = 0; i < world_.vars.size(); ++i) solver.add(terms.is_within(i, world_.intervals[i]));
    solver.add(!claim);
    z3::check_result result = solver.check();
    ++asked;
    settled += result != z3::unknown;
    if (result != z3::sat) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "it does not hold for " << solver.get_model();
  }

 private:
  z3::context context_;

 public:
  Terms terms;
  int asked = 0, settled = 0;

 private:
  const SmallWorld& world_;
};

// Loops as they are: some short, some long, one that begins below zero.
SmallWorld large_world(Rng& rng) {
  constexpr i64 extents[] = {1, 2, 3, 7, 8, 12, 48, 64, 97, 1000, 4096};
  auto extent = [&] { return extents[rng.below(11)]; };
  i64 low = rng.below(3) ? 0 : -rng.below(100);
  return SmallWorld({{0, extent() - 1}, {0, extent() - 1}, {low, low + extent()}});
}

TEST(SimplifyOracle, WhatBecomesSimplerStaysEqual) {
  int asked = 0, settled = 0;
  for (u64 round = 0; round < 400; ++round) {
    Rng rng(17, round);
    SmallWorld world = large_world(rng);
    RandomExpressions random(world, rng);
    const Expr* e = rng.below(3) ? random.index(3) : random.condition(2);
    const Expr* simple = simplify(world.arena, e, world.ranges);
    if (simple == e) continue;
    Oracle oracle(world);
    ASSERT_TRUE(oracle.holds(oracle.terms.of(e) == oracle.terms.of(simple)))
        << print(e) << "\n  became " << print(simple);
    asked += oracle.asked;
    settled += oracle.settled;
  }
  EXPECT_GT(asked, 130);
  EXPECT_GT(settled, asked * 9 / 10) << settled << " of " << asked << " were not too hard for z3";
}

TEST(SimplifyOracle, BoundsAndDecisionsAreRight) {
  int bounded = 0, decided = 0, assumed = 0;
  for (u64 round = 0; round < 200; ++round) {
    Rng rng(18, round);
    SmallWorld world = large_world(rng);
    RandomExpressions random(world, rng);
    const Expr *e = random.index(2), *condition = random.condition(1);
    Oracle oracle(world);
    z3::expr value = oracle.terms.of(e), holds = oracle.terms.of(condition);
    if (std::optional<Interval> bounds = interval_of(e, world.ranges)) {
      const Build& build = world.build;
      z3::expr inside =
          value >= oracle.terms.of(build.integer(bounds->min)) && value <= oracle.terms.of(build.integer(bounds->max));
      ASSERT_TRUE(oracle.holds(inside)) << print(e) << " in " << bounds->min << " to " << bounds->max;
      ++bounded;
    }
    if (i64 divisor = known_divisor(e); divisor > 1) {
      ASSERT_TRUE(oracle.holds(z3::mod(value, oracle.terms.of(world.build.integer(divisor))) == 0))
          << print(e) << " by " << divisor;
    }
    if (std::optional<bool> known = decide(condition, world.ranges)) {
      ASSERT_TRUE(oracle.holds(*known ? holds : !holds)) << print(condition);
      ++decided;
    }
    VarRanges narrowed = world.ranges;
    bool is_possible = assume(condition, true, narrowed);
    z3::expr said = oracle.terms.of(world.build.integer(is_possible, DType::Bool));
    for (std::size_t i = 0; i < world.vars.size(); ++i)
      said = said && oracle.terms.is_within(i, *narrowed.find(world.vars[i]));
    ASSERT_TRUE(oracle.holds(z3::implies(holds, said))) << "assuming " << print(condition);
    assumed += narrowed.size() > world.ranges.size();
  }
  EXPECT_GT(bounded, 160);
  EXPECT_GT(decided, 15);
  EXPECT_GT(assumed, 15);
}

#else

TEST(SimplifyOracle, NeedsZ3) {
  GTEST_SKIP() << "built without z3 (libz3-dev): the simplifier is compared with all values of small ranges only";
}

#endif

}  // namespace
}  // namespace tw
