// BuildsAhead: a few threads do pieces of work in order, while the caller takes the results in any order. Where no
// thread can be started, the caller does a piece of work when it asks for it. Used for the kernels of a batch; those of
// the next batch come behind them.
#pragma once
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace tw {

template <class T>
class BuildsAhead {
 public:
  // build(item, thread) with thread < threads; calls with the same thread come one after the other. Begins when
  // `before`, if there is one, has done its work or was ended.
  BuildsAhead(std::size_t count, int threads, std::function<T(std::size_t, int)> build,
              std::shared_ptr<BuildsAhead> before = {})
      : build_(std::move(build)), before_(std::move(before)), results_(count) {
    try {
      for (int thread = 0; thread < threads && static_cast<std::size_t>(thread) < count; ++thread) {
        threads_.emplace_back([this, thread] { work(thread); });
      }
    } catch (const std::system_error&) {  // no more threads: those that are there do it
    }
  }
  ~BuildsAhead() { end(); }
  BuildsAhead(const BuildsAhead&) = delete;

  // Waits for what has begun; the rest is left undone, and nothing can be taken any more.
  void end() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      changed_.notify_all();
    }
    if (before_) before_->wake();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    before_.reset();
  }

  // Waits until all are done, or until `stop` says true.
  void finish(const std::function<bool()>& stop) {
    std::unique_lock lock(mutex_);
    while (!threads_.empty() && done_ < results_.size() && !stop())
      changed_.wait_for(lock, std::chrono::milliseconds(20));
  }

  // Is it done and not taken yet?
  bool is_there(std::size_t item) {
    std::lock_guard lock(mutex_);
    return results_[item].has_value();
  }
  // The result of one piece; waits for it. Each may be taken once.
  T take(std::size_t item) {
    if (threads_.empty()) return build_(item, 0);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return results_[item].has_value(); });
    return std::move(*results_[item]);
  }

 private:
  void wake() {
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

  // Until all is done, or it or the one that waits was ended.
  void wait_until_done(const std::atomic<bool>& is_waiting_ended) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ == results_.size() || stopped_ || is_waiting_ended; });
  }

  // The search goes first where both want the same core: all else waits for what it finds.
  static void give_way_to_the_search() {
    constexpr int kLower = 5;  // a third of the weight
    const auto thread = static_cast<id_t>(gettid());
    setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + kLower);
  }

  void work(int thread) {
    give_way_to_the_search();
    if (before_) before_->wait_until_done(stopped_);
    for (std::size_t item = next_++; item < results_.size() && !stopped_; item = next_++) {
      T result = build_(item, thread);
      std::lock_guard lock(mutex_);
      results_[item] = std::move(result);
      ++done_;
      changed_.notify_all();
    }
  }

  std::function<T(std::size_t, int)> build_;
  std::shared_ptr<BuildsAhead> before_;
  std::vector<std::optional<T>> results_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t done_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stopped_{false};
  std::vector<std::thread> threads_;
};

}  // namespace tw
