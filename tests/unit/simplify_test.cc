// Simplification: the patterns that tiling, fusing and layout changes make, and random expressions checked on every
// value.
#include "dsl/analysis/simplify.h"

#include <gtest/gtest.h>

#include "dsl/ir/print.h"
#include "dsl/ir/walk.h"
#include "tests/support/support.h"
#include "tests/unit/index_expressions.h"

namespace tw {
namespace {

class SimplifyTiles : public testing::Test {
 protected:
  SmallWorld w{{{0, 7}, {0, 5}, {0, 3}, {0, 1000}}};
  const Expr *a = w.vars[0], *b = w.vars[1], *c = w.vars[2], *f = w.vars[3];
  const Build& build = w.build;

  const Expr* sum(const Expr* x, i64 n, const Expr* y) { return build.add(build.mul(x, n), y); }
  const Expr* div(const Expr* x, i64 n) { return build.floor_div(x, build.integer(n)); }
  const Expr* mod(const Expr* x, i64 n) { return build.floor_mod(x, build.integer(n)); }
  std::string simple(const Expr* e) { return print(simplify(w.arena, e, w.ranges)); }
};

TEST_F(SimplifyTiles, SplitIndices) {
  EXPECT_EQ(simple(div(sum(a, 6, b), 6)), "a");
  EXPECT_EQ(simple(mod(sum(a, 6, b), 6)), "b");
  EXPECT_EQ(simple(div(sum(a, 12, sum(b, 4, c)), 4)), "a * 3 + b");
  EXPECT_EQ(simple(div(sum(a, 24, sum(b, 4, c)), 24)), "a");
  EXPECT_EQ(simple(mod(sum(a, 24, sum(b, 4, c)), 24)), "b * 4 + c");
  EXPECT_EQ(simple(div(sum(a, 8, sum(b, 4, c)), 8)), "a + b // 2");
  EXPECT_EQ(simple(mod(sum(a, 8, sum(b, 4, c)), 8)), "c + b % 2 * 4");
  EXPECT_EQ(simple(div(build.add(sum(a, 6, b), 600), 6)), "a + 100");
  EXPECT_EQ(simple(mod(b, 6)), "b");
  EXPECT_EQ(simple(div(b, 6)), "0");
}

TEST_F(SimplifyTiles, FusedLoops) {
  EXPECT_EQ(simple(build.add(build.mul(div(f, 6), 6), mod(f, 6))), "f");
  EXPECT_EQ(simple(div(div(f, 3), 4)), "f // 12");
  EXPECT_EQ(simple(div(mod(f, 12), 4)), "f // 4 % 3");
  EXPECT_EQ(simple(mod(mod(f, 12), 4)), "f % 4");
  EXPECT_EQ(simple(mod(div(f, 3), 4)), "f // 3 % 4");
  // All three digits of a fused loop make the loop variable again.
  EXPECT_EQ(simple(build.add(build.mul(div(f, 12), 12), build.add(build.mul(mod(div(f, 3), 4), 3), mod(f, 3)))), "f");
}

TEST_F(SimplifyTiles, Conditions) {
  EXPECT_EQ(simple(build.lt(sum(a, 6, b), 48)), "true");
  EXPECT_EQ(simple(build.lt(sum(a, 6, b), 47)), "a * 6 + b < 47");
  EXPECT_EQ(simple(build.lt(sum(a, 6, b), 42)), "a < 7");
  EXPECT_EQ(simple(build.lt(build.mul(f, 4), 14)), "f < 4");
  EXPECT_EQ(simple(build.binary(BinaryOp::Ge, build.add(f, -1), build.integer(0))), "f >= 1");
  EXPECT_EQ(simple(build.binary(BinaryOp::Ge, build.integer(7), build.add(f, 2))), "f <= 5");
  EXPECT_EQ(simple(build.lt(build.add(f, a), build.add(f, b))), "a < b");
  EXPECT_EQ(simple(build.binary(BinaryOp::Min, a, build.integer(7))), "a");
  EXPECT_EQ(simple(build.select(build.lt(a, 8), b, c)), "b");
}

TEST_F(SimplifyTiles, NothingToDoGivesTheSamePointer) {
  for (const Expr* e : {sum(a, 6, b), mod(f, 12), div(f, 12), build.lt(sum(a, 6, b), 47), build.sub(f, a)}) {
    EXPECT_EQ(simplify(w.arena, e, w.ranges), e) << print(e);
  }
}

TEST_F(SimplifyTiles, IndicesInsideFloatsButNotFloats) {
  const Buffer* buffer = w.arena.make<Buffer>(BufferId{1}, "X", DType::F32, w.arena.list<i64>({48}));
  const Expr* load = build.load(buffer, w.arena.list<const Expr*>({div(sum(a, 6, b), 6)}));
  const Expr* zero = build.number(0.0, DType::F32);
  EXPECT_EQ(simple(build.add(load, zero)), "X[a] + 0.0");
}

TEST_F(SimplifyTiles, StatementsKnowTheirLoopsAndConditions) {
  const Buffer* buffer = w.arena.make<Buffer>(BufferId{1}, "X", DType::F32, w.arena.list<i64>({48}));
  const Var *i = build.var(10, "i"), *j = build.var(11, "j");
  const Stmt* store =
      build.store(buffer, w.arena.list<const Expr*>({mod(sum(i, 6, j), 6)}), build.number(1.0, DType::F32));
  const Stmt* guarded = build.if_then(build.lt(i, 4), build.if_then(build.lt(sum(i, 6, j), 24), store));
  const Stmt* s = build.loop({1}, i, 8, build.loop({2}, j, 6, guarded));
  const Stmt* out = simplify(w.arena, s);
  EXPECT_EQ(print(out), "for i in 8 {\n  for j in 6 {\n    if i < 4 {\n      X[j] = 1.0\n    }\n  }\n}\n");
  EXPECT_EQ(simplify(w.arena, out), out);
}

// TW_CASES=10000000 tries as many expressions.
TEST(Simplify, EqualForEveryValue) {
  i64 rounds = test::from_environment("TW_CASES", 20000), shorter = 0;
  for (i64 round = 0; round < rounds; ++round) {
    Rng rng(3, static_cast<u64>(round));
    std::vector<Interval> intervals;
    for (int i = 0; i < 3; ++i) {
      i64 min = rng.below(3) ? 0 : rng.below(9) - 4;
      intervals.push_back({min, min + rng.below(7)});
    }
    SmallWorld w(intervals);
    RandomExpressions random(w, rng);
    int depth = 2 + static_cast<int>(rng.below(3));
    const Expr* e = rng.below(3) ? random.index(depth) : random.condition(depth);
    const Expr* simple = simplify(w.arena, e, w.ranges);
    w.for_all([&](const std::vector<i64>& values) {
      ASSERT_EQ(value_of(e, values), value_of(simple, values)) << print(e) << "\n  became " << print(simple);
    });
    if (HasFatalFailure()) return;
    shorter += print(simple).size() < print(e).size();
  }
  EXPECT_GT(shorter, rounds / 3);
}

TEST(Simplify, Fixpoint) {
  int again = 0;
  constexpr int rounds = 5000;
  for (int round = 0; round < rounds; ++round) {
    Rng rng(4, static_cast<u64>(round));
    SmallWorld w({{0, 6}, {0, 3}, {-2, 5}});
    const Expr* once = simplify(w.arena, RandomExpressions(w, rng).index(3), w.ranges);
    again += simplify(w.arena, once, w.ranges) != once;
  }
  EXPECT_LT(again, rounds / 100);
}

}  // namespace
}  // namespace tw
