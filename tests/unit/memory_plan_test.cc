// Places of values in memory: sound on random lifetimes, and near the least.
#include "sampler/models/memory_plan.h"

#include <gtest/gtest.h>

#include "dsl/base/rng.h"

namespace tw {
namespace {

void expect_sound(const std::vector<StorageNeed>& needs, const StoragePlan& plan) {
  for (std::size_t i = 0; i < needs.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % 64, 0);
    EXPECT_LE(plan.offsets[i] + needs[i].bytes, plan.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      bool is_apart =
          plan.offsets[i] + needs[i].bytes <= plan.offsets[j] || plan.offsets[j] + needs[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(is_apart || !needs[i].lifetime.meets(needs[j].lifetime)) << i << " and " << j;
    }
  }
}

TEST(MemoryPlan, ValuesThatAreNeededAtOnceLieApart) {
  double worst = 1, sum = 0;
  constexpr int cases = 60;
  for (u64 seed = 0; seed < cases; ++seed) {
    Rng rng(seed);
    std::vector<StorageNeed> needs;
    for (i64 n = 1 + rng.below(40), i = 0; i < n; ++i) needs.push_back({{i, i + rng.below(4)}, 1 + rng.below(5000)});
    StoragePlan plan = plan_memory(needs, 64);
    expect_sound(needs, plan);
    i64 least = least_bytes(needs, 64);
    ASSERT_GE(plan.bytes, least);
    double ratio = static_cast<double>(plan.bytes) / static_cast<double>(least);
    worst = std::max(worst, ratio), sum += ratio;
  }
  EXPECT_LE(sum / cases, 1.02);
  EXPECT_LE(worst, 1.2);
}

// Eighteen layers that each keep x, and make of it something small, something small again, and something four times as
// large: the second small one has to be where the first one is not in the way.
TEST(MemoryPlan, RepeatedLayersReachTheLeast) {
  std::vector<StorageNeed> needs;
  i64 step = 0;
  for (int layer = 0; layer < 18; ++layer, step += 4) {
    needs.push_back({{step, step + 4}, 6400});       // x, added at the end
    needs.push_back({{step + 1, step + 2}, 6400});   // by a convolution
    needs.push_back({{step + 2, step + 3}, 6400});   // normalised
    needs.push_back({{step + 3, step + 4}, 25600});  // by a product
  }
  StoragePlan plan = plan_memory(needs, 64);
  expect_sound(needs, plan);
  EXPECT_LE(static_cast<double>(plan.bytes), 1.05 * static_cast<double>(least_bytes(needs, 64)));
}

TEST(MemoryPlan, NothingTakesNothing) { EXPECT_EQ(plan_memory({}, 64).bytes, 0); }

TEST(HandedOn, AResultTakesThePlaceOfAnOperandThatEnds) {
  std::vector<StorageNeed> needs{{{0, 2}, 640}, {{2, 3}, 640}, {{3, 5}, 640}};
  ValuePlaces places = place_values(needs, {{0, 1}, {1, 2}}, 64);
  EXPECT_EQ(places.storage.offsets, (std::vector<i64>{0, 0, 0}));
  EXPECT_EQ(places.storage.bytes, 640);
  EXPECT_EQ(places.least, 640);
  EXPECT_EQ(plan_memory(needs, 64).bytes, 1280) << "without that";
}

TEST(HandedOn, OtherOperandsKeepTheirPlaces) {
  using Indices = std::vector<std::size_t>;
  EXPECT_EQ(places_handed_on({{{0, 2}, 640}, {{2, 4}, 640}}, {{0, 1}}), (Indices{0, 0}));
  EXPECT_EQ(places_handed_on({{{0, 3}, 640}, {{2, 4}, 640}}, {{0, 1}}), (Indices{0, 1})) << "read later";
  EXPECT_EQ(places_handed_on({{{0, 2}, 640}, {{1, 4}, 640}}, {{0, 1}}), (Indices{0, 1})) << "there before";
  EXPECT_EQ(places_handed_on({{{0, 2}, 640}, {{2, 4}, 600}}, {{0, 1}}), (Indices{0, 1})) << "of another size";
  EXPECT_EQ(places_handed_on({{{0, 2}, 640}, {{2, 4}, 640}, {{2, 4}, 640}}, {{0, 1}, {0, 2}}), (Indices{0, 0, 2}))
      << "two results";
  EXPECT_EQ(places_handed_on({{{0, 2}, 640}, {{1, 2}, 640}, {{2, 3}, 640}}, {{0, 2}, {1, 2}}), (Indices{0, 1, 0}))
      << "two operands";
  EXPECT_EQ(places_handed_on({{{1, 2}, 640}, {{0, 2}, 640}, {{2, 3}, 640}}, {{0, 2}, {1, 2}}), (Indices{0, 1, 1}))
      << "the one that was there first";
}

// Layers that add to x what they make of it, with something three times as large, twice, in between, which fits only
// where x is in the same place all along.
TEST(HandedOn, AResidualStaysWhereItIs) {
  std::vector<StorageNeed> needs{{{0, 0}, 640}};
  std::vector<Successor> successors;
  std::vector<std::size_t> residuals{0};
  for (i64 layer = 0, step = 1; layer < 12; ++layer, step += 6) {
    for (i64 units : {1, 3, 3, 1, 1}) {
      const i64 made = step + std::ssize(needs) % 6 - 1;
      needs.push_back({{made, made + 1}, 640 * units});
    }
    needs[residuals.back()].lifetime.last = step + 5;
    needs.push_back({{step + 5, step + 5}, 640});
    successors.push_back({needs.size() - 2, needs.size() - 1});
    successors.push_back({residuals.back(), needs.size() - 1});
    residuals.push_back(needs.size() - 1);
  }
  ValuePlaces places = place_values(needs, successors, 64);
  EXPECT_EQ(places.least, 7 * 640);
  EXPECT_EQ(places.storage.bytes, places.least);
  for (std::size_t x : residuals) EXPECT_EQ(places.storage.offsets[x], places.storage.offsets[0]) << x;
}

TEST(HandedOn, RandomPlansAreSoundAndNoLarger) {
  std::size_t handed_on = 0, smaller = 0;
  for (u64 seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    std::vector<StorageNeed> needs;
    std::vector<Successor> successors;
    for (i64 n = 1 + rng.below(40), i = 0; i < n; ++i) {
      needs.push_back({{i, i + rng.below(4)}, 640 * (1 + rng.below(3))});
      for (std::size_t operand = 0; operand + 1 < needs.size(); ++operand) {
        if (needs[operand].lifetime.last == i) successors.push_back({operand, needs.size() - 1});
      }
    }
    ValuePlaces places = place_values(needs, successors, 64);
    StoragePlan apart = plan_memory(needs, 64);
    std::vector<std::size_t> first = places_handed_on(needs, successors);
    for (std::size_t i = 0; i < needs.size(); ++i) {
      handed_on += first[i] != i;
      // Where one is written over the other they meet in one step.
      for (std::size_t j = 0; j < i; ++j) {
        bool is_over_it = first[i] == first[j] && places.storage.offsets[i] == places.storage.offsets[j] &&
                          needs[j].lifetime.last == needs[i].lifetime.first;
        if (is_over_it) needs[j].lifetime.last -= 1;
      }
    }
    expect_sound(needs, places.storage);
    EXPECT_GE(places.storage.bytes, places.least);
    EXPECT_LE(places.storage.bytes, apart.bytes);
    smaller += places.storage.bytes < apart.bytes;
  }
  EXPECT_GT(handed_on, 100u);
  EXPECT_GT(smaller, 20u);
}

}  // namespace
}  // namespace tw
