// The kernel thread pool: every piece once, on a valid worker, for many shapes of work.
#include "runtime/measure/thread_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <vector>

namespace tw {
namespace {

using Pool = std::unique_ptr<tw_pool, void (*)(tw_pool*)>;
Pool make_pool(int threads) { return {tw_pool_create(threads, nullptr), tw_pool_destroy}; }

struct Counts {
  explicit Counts(int64_t pieces, int64_t workers) : of_piece(pieces), of_worker(workers) {}
  std::vector<std::atomic<int>> of_piece, of_worker;
  static void count(void* context, int64_t index, int64_t worker) {
    auto& counts = *static_cast<Counts*>(context);
    ++counts.of_piece.at(static_cast<std::size_t>(index));
    ++counts.of_worker.at(static_cast<std::size_t>(worker));
  }
};

TEST(ThreadPool, EveryPieceOnce) {
  for (int threads : {1, 2, 3, 8}) {
    Pool pool = make_pool(threads);
    ASSERT_TRUE(pool);
    EXPECT_EQ(tw_pool_threads(pool.get()), threads);
    for (int64_t pieces : {0, 1, 2, 7, 1000}) {
      Counts counts(pieces, threads);
      tw_pool_run(pool.get(), pieces, Counts::count, &counts);
      for (auto& count : counts.of_piece) EXPECT_EQ(count, 1) << threads << " threads, " << pieces << " pieces";
    }
  }
}

// Of many short pieces neighbours go to one thread, so that threads do not write side by side; the last ones are shared
// out finely.
TEST(ThreadPool, NeighboursStayTogether) {
  struct Runs {
    std::vector<int64_t> worker_of = std::vector<int64_t>(4096, -1);
    std::atomic<int> workers = 0;
    static void run(void* context, int64_t index, int64_t worker) {
      auto& runs = *static_cast<Runs*>(context);
      runs.worker_of[static_cast<size_t>(index)] = worker;
      runs.workers |= 1 << worker;
      while (runs.workers != 3) sched_yield();  // until both take part
    }
  } runs;
  Pool pool = make_pool(2);
  tw_pool_run(pool.get(), 4096, Runs::run, &runs);
  int changes = 0, longest = 0, length = 0;
  for (size_t i = 1; i < runs.worker_of.size(); ++i) {
    bool is_change = runs.worker_of[i] != runs.worker_of[i - 1];
    changes += is_change;
    length = is_change ? 0 : length + 1;
    longest = std::max(longest, length);
  }
  EXPECT_GE(changes, 1);
  EXPECT_LE(changes, 80);
  EXPECT_GE(longest, 500);
}

TEST(ThreadPool, ManyJobsInARow) {
  Pool pool = make_pool(4);
  Counts counts(5, 4);
  for (int job = 0; job < 20000; ++job) tw_pool_run(pool.get(), 5, Counts::count, &counts);
  for (auto& count : counts.of_piece) EXPECT_EQ(count, 20000);
}

TEST(ThreadPool, WakesThreadsThatSleep) {
  Pool pool = make_pool(3);
  // Each piece waits for the other two, so all three threads must come, awake or not.
  struct Meeting {
    std::atomic<int> arrived = 0;
    std::atomic<int> workers = 0;
    static void meet(void* context, int64_t, int64_t worker) {
      auto& meeting = *static_cast<Meeting*>(context);
      meeting.workers |= 1 << worker;
      ++meeting.arrived;
      while (meeting.arrived < 3) sched_yield();
    }
  };
  for (int pause : {0, 100, 5000}) {
    usleep(static_cast<useconds_t>(pause));
    Meeting meeting;
    tw_pool_run(pool.get(), 3, Meeting::meet, &meeting);
    EXPECT_EQ(meeting.workers, 7) << "after " << pause << " us";
  }
}

TEST(ThreadPool, NullIsSerial) {
  Counts counts(9, 1);
  tw_pool_run(nullptr, 9, Counts::count, &counts);
  EXPECT_EQ(counts.of_worker[0], 9);
  EXPECT_EQ(tw_pool_threads(nullptr), 1);
  tw_pool_destroy(nullptr);
}

TEST(ThreadPool, RefusesBadSizes) {
  EXPECT_EQ(tw_pool_create(0, nullptr), nullptr);
  EXPECT_EQ(tw_pool_create(100000, nullptr), nullptr);
}

TEST(ThreadPool, CreateAndDestroyManyTimes) {
  for (int i = 0; i < 200; ++i) {
    Pool pool = make_pool(4);
    Counts counts(4, 4);
    if (i % 2) tw_pool_run(pool.get(), 4, Counts::count, &counts);
  }
}

}  // namespace
}  // namespace tw
