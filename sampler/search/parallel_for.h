// parallel_for: independent work items on a few threads. Which thread does which item is left to chance; results must depend on the
// item only.
#pragma once
#include <atomic>
#include <thread>
#include <vector>

namespace tw {

// Calls work(item, thread) for every item in [0, count); thread < threads.
template <class Work>
void parallel_for(int count, int threads, Work&& work) {
  std::atomic<int> next{0};
  auto run = [&](int thread) {
    for (int item = next++; item < count; item = next++) work(item, thread);
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads && thread < count; ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::thread& other : others) other.join();
}

}  // namespace tw
