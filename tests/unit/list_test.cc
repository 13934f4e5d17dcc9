// List and the memory that each thread keeps for it.
#include "dsl/base/list.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

namespace tw {
namespace {

// A list that lives longer than the pool of its thread, and asks for more when that has ended.
struct Late {
  ~Late() {
    list.clear();
    list.shrink_to_fit();
    List<int> more(100, 1);
    *sum = std::accumulate(more.begin(), more.end(), 0);
  }
  List<int> list;
  int* sum = nullptr;
};

TEST(List, OutlivesThePoolOfItsThread) {
  int sum = 0;
  std::thread([&] {
    thread_local Late late;  // before the first list is given back, and so destroyed after the pool
    late.sum = &sum;
    late.list.assign(50, 2);
    List<int>(10, 3);
  }).join();
  EXPECT_EQ(sum, 100);
}

// Memory that one thread takes and another one gives back.
TEST(List, MayEndInAnotherThread) {
  List<List<int>> lists;
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) lists.push_back(List<int>(20, i));
  }).join();
  long sum = 0;
  for (const List<int>& list : lists) sum += std::accumulate(list.begin(), list.end(), 0L);
  EXPECT_EQ(sum, 20 * 999 * 500);
  lists.clear();
}

}  // namespace
}  // namespace tw
