// Work items on several threads: each is done once, and what one of them throws reaches the caller.
#include "sampler/space/parallel_for.h"

#include <gtest/gtest.h>

#include <latch>
#include <new>
#include <stdexcept>

namespace tw {
namespace {

TEST(ParallelFor, DoesEachItemOnce) {
  std::vector<std::atomic<int>> done(1000);
  parallel_for(1000, 4, [&](int item, int thread) {
    EXPECT_TRUE(thread >= 0 && thread < 4);
    ++done[static_cast<std::size_t>(item)];
  });
  for (const std::atomic<int>& count : done) EXPECT_EQ(count, 1);
  parallel_for(0, 4, [](int, int) { FAIL(); });
}

// All threads are inside of an item when one of them throws.
TEST(ParallelFor, AnExceptionOfAnyThreadReachesTheCaller) {
  for (int thrower = 0; thrower < 3; ++thrower) {
    std::latch all_inside(3);
    std::atomic<int> ended{0};
    auto work = [&](int item, int thread) {
      if (item >= 3) return;
      all_inside.arrive_and_wait();
      if (thread == thrower) throw std::bad_alloc();
      ++ended;
    };
    EXPECT_THROW(parallel_for(1000, 3, work), std::bad_alloc) << thrower;
    EXPECT_EQ(ended, 2) << "the others were waited for";
  }
}

TEST(ParallelFor, AfterAnExceptionNoItemIsBegun) {
  std::atomic<int> begun{0};
  auto work = [&](int, int) {
    ++begun;
    throw std::runtime_error("first");
  };
  EXPECT_THROW(parallel_for(1000, 4, work), std::runtime_error);
  EXPECT_LE(begun, 4);
  EXPECT_THROW(parallel_for(3, 1, work), std::runtime_error) << "on the caller's thread alone";
}

}  // namespace
}  // namespace tw
