// parallel_for: independent work items on a few threads. Which thread does which item is left to chance; results must
// depend on the item only. start_beside: one piece of work beside the caller's. Where the system gives no thread, both
// do with what there is.
#pragma once
#include <atomic>
#include <future>
#include <system_error>
#include <thread>
#include <utility>
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
  try {
    for (int thread = 1; thread < threads && thread < count; ++thread) others.emplace_back(run, thread);
  } catch (const std::system_error&) {  // no more threads: those that are there do it
  }
  run(0);
  for (std::thread& other : others) other.join();
}

// Runs work() on a thread of its own if that is wanted and there is one, else when its result is asked for.
template <class Work>
auto start_beside(bool is_wanted, Work work) -> std::future<decltype(work())> {
  if (is_wanted) {
    try {
      return std::async(std::launch::async, work);
    } catch (const std::system_error&) {  // no thread to be had: later, then
    }
  }
  return std::async(std::launch::deferred, std::move(work));
}

}  // namespace tw
