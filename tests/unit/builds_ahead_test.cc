// BuildsAhead: work in order on threads of its own.
#include "sampler/search/builds_ahead.h"

#include <gtest/gtest.h>

#include <array>

namespace tw {
namespace {

int niceness_of_this_thread() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

TEST(BuildsAhead, GivesWayToTheThreadThatSearches) {
  int own = niceness_of_this_thread();
  constexpr int kLowest = 19;
  BuildsAhead<int> builds(4, 2, [](std::size_t, int) { return niceness_of_this_thread(); });
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(builds.take(i), std::min(own + 5, kLowest));
  EXPECT_EQ(niceness_of_this_thread(), own);
}

TEST(BuildsAhead, WhatComesBehindBeginsWhenAllBeforeItIsBuilt) {
  std::atomic<int> built = 0;
  auto first = std::make_shared<BuildsAhead<int>>(8, 2, [&](std::size_t, int) { return ++built; });
  BuildsAhead<int> second(1, 1, [&](std::size_t, int) { return built.load(); }, first);
  EXPECT_EQ(second.take(0), 8);
}

TEST(BuildsAhead, GivesEveryResultInAnyOrder) {
  for (int threads : {0, 1, 4}) {
    std::array<std::atomic<int>, 4> at_work{};
    BuildsAhead<int> builds(100, threads, [&](std::size_t item, int thread) {
      EXPECT_EQ(at_work[static_cast<std::size_t>(thread)]++, 0) << "two at once with one thread's tools";
      int result = static_cast<int>(item * item);
      --at_work[static_cast<std::size_t>(thread)];
      return result;
    });
    if (threads == 4) builds.finish([] { return false; });
    for (int item : {99, 0, 50}) EXPECT_EQ(builds.take(static_cast<std::size_t>(item)), item * item);
    for (int item = 1; item < 50; ++item) EXPECT_EQ(builds.take(static_cast<std::size_t>(item)), item * item);
  }
}

TEST(BuildsAhead, WhatWasNotBegunIsLeftUndone) {
  std::atomic<int> begun{0};
  std::atomic<bool> may_end{false};
  std::thread end;
  {
    BuildsAhead<int> builds(1000, 2, [&](std::size_t, int) {
      ++begun;
      while (!may_end) std::this_thread::yield();
      return 0;
    });
    builds.finish([&] { return begun == 2; });
    end = std::thread([&] { std::this_thread::sleep_for(std::chrono::milliseconds(20)), may_end = true; });
  }
  end.join();
  EXPECT_LT(begun, 1000);
}

}  // namespace
}  // namespace tw
