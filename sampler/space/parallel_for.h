// parallel_for: independent work items on a few threads. Which thread does which item is left to chance; results must
// depend on the item only. start_beside: one piece of work beside the caller's. Where the system gives no thread, both
// do with what there is.
#pragma once
#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tw {

// Calls work(item, thread) for every item in [0, count); thread < threads. After an exception no more items are begun,
// and when all threads have ended, the first exception is thrown again.
template <class Work>
void parallel_for(int count, int threads, Work&& work) {
  std::atomic<int> next{0};
  std::atomic<bool> has_failed{false};
  std::exception_ptr first;
  auto run = [&](int thread) {
    try {
      for (int item = next++; item < count; item = next++) work(item, thread);
    } catch (...) {
      next = count;
      if (!has_failed.exchange(true)) first = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  others.reserve(static_cast<std::size_t>(std::max(0, std::min(threads, count))));
  try {
    for (int thread = 1; thread < threads && thread < count; ++thread) others.emplace_back(run, thread);
  } catch (const std::system_error&) {  // no more threads: those that are there do it
  } catch (const std::bad_alloc&) {
  }
  run(0);
  for (std::thread& other : others) other.join();
  if (first) std::rethrow_exception(first);
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
