// Affine analysis: hand-written cases of what tilings make, and random expressions checked on every value.
#include <gtest/gtest.h>

#include "dsl/ir/print.h"
#include "tests/unit/index_expressions.h"

namespace tw {
namespace {

TEST(Affine, LinearFormCollectsTerms) {
  SmallWorld w({{0, 7}, {0, 5}, {0, 3}});
  const Var *a = w.vars[0], *b = w.vars[1];
  const Expr* e = w.build.sub(w.build.mul(w.build.add(w.build.mul(a, 6), w.build.add(b, 2)), 3), b);
  std::optional<LinearForm> form = linear_form(e);
  ASSERT_TRUE(form);
  EXPECT_EQ(form->constant, 6);
  EXPECT_EQ(form->coefficient(a), 18);
  EXPECT_EQ(form->coefficient(b), 2);
  EXPECT_EQ(form->coefficient(w.vars[2]), 0);
  EXPECT_EQ(print(to_expr(w.arena, *form)), "a * 18 + b * 2 + 6");
  EXPECT_FALSE(linear_form(w.build.floor_div(a, w.build.integer(2))));
  EXPECT_FALSE(linear_form(w.build.mul(a, b)));
}

TEST(Affine, TermsThatCancelVanish) {
  SmallWorld w({{0, 7}, {0, 5}});
  const Expr* e = w.build.sub(w.build.add(w.vars[0], w.vars[1]), w.vars[0]);
  EXPECT_EQ(linear_form(e)->terms.size(), 1u);
  EXPECT_EQ(interval_of(e, w.ranges), (Interval{0, 5}));
}

TEST(Affine, BoundsOfMinMaxAndSelect) {
  SmallWorld w({{0, 7}, {0, 5}});
  const Build& build = w.build;
  const Expr* tile = build.add(build.mul(w.vars[0], 6), w.vars[1]);
  EXPECT_EQ(interval_of(tile, w.ranges), (Interval{0, 47}));
  EXPECT_EQ(interval_of(build.binary(BinaryOp::Min, tile, build.integer(40)), w.ranges), (Interval{0, 40}));
  EXPECT_EQ(interval_of(build.binary(BinaryOp::Max, tile, build.integer(40)), w.ranges), (Interval{40, 47}));
  EXPECT_EQ(interval_of(build.select(build.lt(w.vars[0], 3), build.integer(9), w.vars[1]), w.ranges), (Interval{0, 9}));
  EXPECT_FALSE(interval_of(build.var(17, "unknown"), w.ranges));
}

TEST(Affine, DecidesTailPredicates) {
  SmallWorld w({{0, 8}, {0, 5}});
  const Expr* tile = w.build.add(w.build.mul(w.vars[0], 6), w.vars[1]);
  EXPECT_EQ(decide(w.build.lt(tile, 54), w.ranges), true);
  EXPECT_EQ(decide(w.build.lt(tile, 49), w.ranges), std::nullopt);
  w.ranges.set(w.vars[0], {0, 7});
  EXPECT_EQ(decide(w.build.lt(tile, 49), w.ranges), true);
  w.ranges.set(w.vars[0], {9, 9});
  EXPECT_EQ(decide(w.build.lt(tile, 49), w.ranges), false);
  // 2 a is never odd, whatever a is.
  EXPECT_EQ(decide(w.build.binary(BinaryOp::Eq, w.build.mul(w.build.var(9, "x"), 2), w.build.integer(5)), w.ranges),
            false);
}

TEST(Affine, HugeCoefficientsAreUnknownNotWrong) {
  SmallWorld w({{0, 7}});
  const Expr* e = w.vars[0];
  for (int i = 0; i < 5; ++i) e = w.build.add(w.build.mul(e, i64{1} << 40), e);
  EXPECT_FALSE(linear_form(e));
  EXPECT_FALSE(interval_of(e, w.ranges));
  EXPECT_FALSE(decide(w.build.lt(e, 3), w.ranges));
}

TEST(Affine, AssumeNarrowsVariables) {
  SmallWorld w({{0, 8}, {0, 5}});
  const Expr* tile = w.build.add(w.build.mul(w.vars[0], 6), w.vars[1]);
  VarRanges ranges = w.ranges;
  EXPECT_TRUE(assume(w.build.lt(tile, 13), true, ranges));
  EXPECT_EQ(*ranges.find(w.vars[0]), (Interval{0, 2}));
  ranges = w.ranges;
  EXPECT_TRUE(assume(w.build.lt(tile, 49), false, ranges));
  EXPECT_EQ(*ranges.find(w.vars[0]), (Interval{8, 8}));
  EXPECT_EQ(*ranges.find(w.vars[1]), (Interval{1, 5}));
  EXPECT_FALSE(assume(w.build.lt(tile, i64{0}), true, ranges));
}

constexpr int kRounds = 20000;

// Small worlds with ranges as loops and offsets make them.
SmallWorld random_world(Rng& rng) {
  std::vector<Interval> intervals;
  for (int i = 0; i < 3; ++i) {
    i64 min = rng.below(3) ? 0 : rng.below(9) - 4;
    intervals.push_back({min, min + rng.below(7)});
  }
  return SmallWorld(std::move(intervals));
}

TEST(Affine, ClaimsHoldForEveryValue) {
  int known_intervals = 0, decided = 0;
  for (int round = 0; round < kRounds; ++round) {
    Rng rng(1, static_cast<u64>(round));
    SmallWorld w = random_world(rng);
    RandomExpressions random(w, rng);
    const Expr* e = random.index(1 + static_cast<int>(rng.below(3)));
    const Expr* condition = random.condition(1 + static_cast<int>(rng.below(3)));
    std::optional<Interval> interval = interval_of(e, w.ranges);
    std::optional<bool> known = decide(condition, w.ranges);
    std::optional<LinearForm> form = linear_form(e);
    const Expr* rebuilt = form ? to_expr(w.arena, *form) : e;
    i64 divisor = known_divisor(e);
    known_intervals += interval.has_value();
    decided += known.has_value();
    w.for_all([&](const std::vector<i64>& values) {
      i64 value = value_of(e, values);
      if (interval) {
        ASSERT_LE(interval->min, value) << print(e);
        ASSERT_GE(interval->max, value) << print(e);
      }
      ASSERT_EQ(known.value_or(value_of(condition, values) != 0), value_of(condition, values) != 0) << print(condition);
      ASSERT_EQ(value, value_of(rebuilt, values)) << print(e);
      ASSERT_EQ(divisor == 0 ? value : value % divisor, 0) << print(e) << " by " << divisor;
    });
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(known_intervals, kRounds * 9 / 10);
  EXPECT_GT(decided, kRounds / 10);
}

TEST(Affine, AssumptionsLoseNoValue) {
  for (int round = 0; round < kRounds; ++round) {
    Rng rng(2, static_cast<u64>(round));
    SmallWorld w = random_world(rng);
    const Expr* condition = RandomExpressions(w, rng).condition(2);
    bool holds = rng.below(2);
    VarRanges narrowed = w.ranges;
    bool possible = assume(condition, holds, narrowed);
    w.for_all([&](const std::vector<i64>& values) {
      if ((value_of(condition, values) != 0) != holds) return;
      ASSERT_TRUE(possible) << print(condition);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_LE(narrowed.find(w.vars[i])->min, values[i]) << print(condition);
        ASSERT_GE(narrowed.find(w.vars[i])->max, values[i]) << print(condition);
      }
    });
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tw
