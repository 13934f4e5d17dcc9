// Lifetimes of buffers and places in one memory for what is not needed at the same time.
#include "dsl/passes/lifetimes.h"

#include <gtest/gtest.h>

#include "dsl/base/rng.h"
#include "dsl/ir/build.h"
#include "support/parsed.h"

namespace tw {
namespace {

TEST(FirstFit, NeedsThatMeetLieApart) {
  Rng rng(3);
  i64 shared = 0, all = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<StorageNeed> needs;
    for (i64 n = 1 + rng.below(12); n > 0; --n) {
      i64 first = rng.below(10);
      needs.push_back({{first, first + rng.below(4)}, 1 + rng.below(500)});
    }
    i64 alignment = i64{16} << rng.below(5);
    StoragePlan plan = first_fit(needs, alignment);
    ASSERT_EQ(plan.offsets.size(), needs.size());
    i64 end = 0;
    for (std::size_t i = 0; i < needs.size(); ++i) {
      ASSERT_EQ(plan.offsets[i] % alignment, 0);
      end = std::max(end, plan.offsets[i] + needs[i].bytes);
      all += needs[i].bytes;
      for (std::size_t j = 0; j < i; ++j) {
        bool apart =
            plan.offsets[i] + needs[i].bytes <= plan.offsets[j] || plan.offsets[j] + needs[j].bytes <= plan.offsets[i];
        ASSERT_TRUE(apart || !needs[i].lifetime.meets(needs[j].lifetime)) << "need " << i << " and " << j;
      }
    }
    ASSERT_GE(plan.bytes, end);
    ASSERT_LT(plan.bytes, end + alignment);
    shared += plan.bytes;
  }
  EXPECT_LT(shared, all) << "something must have shared a place";
}

TEST(FirstFit, TheLowestGapThatIsWideEnough) {
  StoragePlan plan = first_fit({{{0, 0}, 64}, {{0, 9}, 64}, {{1, 9}, 32}, {{1, 9}, 65}, {{1, 9}, 32}}, 32);
  EXPECT_EQ(plan.offsets, (std::vector<i64>{0, 64, 0, 128, 32}));
  EXPECT_EQ(plan.bytes, 224);
}

// Lifetimes of the Allocs in a body, by name.
std::map<std::string, std::pair<i64, i64>> lifetimes(const std::string& locals, const std::string& body) {
  OwnedProgram made = test::parsed("program p(X: input f32[8], Y: output f32[8]) {\n" + locals + body + "}\n");
  // Around everything, as place_buffers puts those of a whole kernel.
  Arena arena;
  const Stmt* nest = made.program.body;
  for (const Buffer* local : made.program.locals) nest = Build{arena}.alloc(local, nest);
  std::map<std::string, std::pair<i64, i64>> out;
  for (const auto& [buffer, lifetime] : lifetimes_of(nest))
    out[std::string(buffer->name)] = {lifetime.first, lifetime.last};
  return out;
}

TEST(Lifetimes, FromTheFirstToTheLastStore) {
  auto found = lifetimes("local A: f32[8]\nlocal B: f32[8]\nlocal C: f32[8]\n", R"(
    A[0] = X[0]
    B[0] = A[0]
    C[0] = B[0]
    Y[0] = C[0]
)");
  using Pair = std::pair<i64, i64>;
  EXPECT_EQ(found["A"], Pair(0, 1));
  EXPECT_EQ(found["B"], Pair(1, 2));
  EXPECT_EQ(found["C"], Pair(2, 3));
}

TEST(Lifetimes, ALoopKeepsWhatItTouches) {
  auto found = lifetimes("local A: f32[8]\nlocal B: f32[8]\nlocal C: f32[8]\n", R"(
    C[0] = X[0]
    for k in 4 {
      A[k] = C[0]
      B[k] = A[k]
      for i in 2 { Y[i] = Y[i] + B[k] }
      Y[k] = Y[k] + X[k]
    }
    Y[7] = X[7]
)");
  using Pair = std::pair<i64, i64>;
  EXPECT_EQ(found["A"], Pair(1, 4)) << "the next iteration may read what this one leaves";
  EXPECT_EQ(found["B"], Pair(1, 4));
  EXPECT_EQ(found["C"], Pair(0, 4));
}

}  // namespace
}  // namespace tw
