// Indices as linear forms: exact for sums and products by numbers, whatever they are made of.
#include "costmodel/linear_index.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dsl/base/rng.h"
#include "dsl/ir/build.h"

namespace tw {
namespace {

constexpr i64 kExtents[] = {4, 1, 7, 3};

// Some loops around, and iters whose values are sums and products of these.
class LinearIndices : public testing::Test {
 protected:
  static constexpr int kDepth = 4;

  LinearIndices() {
    scope_.reset(16);
    for (int d = 0; d < kDepth; ++d) {
      loops_.push_back(build_.var(static_cast<u32>(d), "i"));
      scope_.bind_loop(loops_.back(), d, kExtents[d]);
    }
  }
  const Expr* affine(Rng& rng, int height) {
    if (height == 0) return rng.below(3) == 0 ? build_.integer(rng.below(9) - 4) : loops_[rng.below(kDepth)];
    const Expr* a = affine(rng, height - 1);
    if (rng.below(3) == 0) return build_.binary(BinaryOp::Mul, a, build_.integer(rng.below(9) - 4));
    return build_.binary(rng.below(2) ? BinaryOp::Add : BinaryOp::Sub, a, affine(rng, height - 1));
  }
  static i64 value(const Expr* e, const std::vector<i64>& at) {
    if (auto* number = as<IntImm>(e)) return number->value;
    if (auto* var = as<Var>(e)) return at[var->id];
    auto* binary = as<Binary>(e);
    i64 a = value(binary->a, at), b = value(binary->b, at);
    return binary->op == BinaryOp::Add ? a + b : binary->op == BinaryOp::Sub ? a - b : a * b;
  }

  Arena arena_;
  Build build_{arena_};
  LinearScope scope_;
  std::vector<const Var*> loops_;
};

TEST_F(LinearIndices, AreExactWhereTheyAreAffine) {
  for (u64 seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    const Expr* direct = affine(rng, 3);
    // The same as the value of an iter, times a number.
    const Var* iter = build_.var(static_cast<u32>(kDepth), "v");
    scope_.bind(iter, direct);
    const Expr* times = build_.binary(BinaryOp::Mul, iter, build_.integer(3));
    LinearIndex index, of_iter;
    scope_.evaluate(direct, index);
    scope_.evaluate(times, of_iter);
    ASSERT_FALSE(index.irregular || of_iter.irregular);
    std::vector<i64> at;
    for (i64 extent : kExtents) at.push_back(rng.below(extent));
    double found = index.constant, found_of_iter = of_iter.constant;
    auto step = [&](const LinearIndex::Term& t) {
      return static_cast<double>(t.coefficient) * static_cast<double>(at[static_cast<std::size_t>(t.loop)]);
    };
    for (const LinearIndex::Term& term : index.terms()) found += step(term);
    for (const LinearIndex::Term& term : of_iter.terms()) found_of_iter += step(term);
    auto is_outer = [](const LinearIndex::Term& a, const LinearIndex::Term& b) { return a.loop < b.loop; };
    EXPECT_TRUE(std::ranges::is_sorted(index.terms(), is_outer)) << seed;
    EXPECT_EQ(found, static_cast<double>(value(direct, at))) << seed;
    EXPECT_EQ(found_of_iter, 3 * found) << seed;
  }
}

// Models see a loop of one iteration as one that moves nothing.
TEST_F(LinearIndices, TimesANumberWhatStandsStillHasNoStep) {
  LinearIndex index;
  scope_.evaluate(build_.binary(BinaryOp::Mul, loops_[1], build_.integer(16)), index);
  EXPECT_EQ(index.term(1).coefficient, 0);
  scope_.evaluate(build_.binary(BinaryOp::Mul, loops_[2], build_.integer(16)), index);
  EXPECT_EQ(index.term(2).coefficient, 16);
  EXPECT_EQ(index.term(2).span, 96);
}

}  // namespace
}  // namespace tw
