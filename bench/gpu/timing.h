// Times of work in one stream of a CUDA device, by events: several ways to do the same thing, in turn. For the GPU
// benchmark: our kernels and those of libraries are timed here alike. It checks no results and knows no library.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "backends/cuda_driver/native.h"

namespace tw::gpu_bench {

// Something that puts one call's work into the stream and does not wait: 0, or an error code.
struct Contestant {
  std::string name, detail;
  std::function<int()> enqueue;
};

// Seconds of one call.
struct Times {
  double median = 0, lower = 0, upper = 0;  // of the samples, with their quartiles; the caches hold what fits into them
  double cold = 0;  // median, after a write to more memory than the second cache holds; 0 = not taken
  // Of (this one's time / the first contestant's time in the same round): above 1, the first one is faster.
  double ratio = 0, ratio_lower = 0, ratio_upper = 0;
  double cold_ratio = 0;
  int rounds = 0;
  bool in_graph = false;  // what a launch costs the processor does not count
  std::string problem;    // why there is no time
};

struct TimingOptions {
  double warm_seconds =
      0.2;  // all contestants in turn, before anything is timed: an idle GPU needs a while for its clock rate
  int rounds = 21, cold_rounds = 9;
  double sample_seconds = 1e-3;  // calls of a sample together, at least one
  double budget_seconds = 6;     // no further rounds after so long, beyond five
};

class Clock {
 public:
  explicit Clock(device::Device& device);
  ~Clock();
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  cuda::Handle stream() const { return stream_; }
  device::Device& device() { return device_; }
  // Calls for a check, no time: 0, or the driver's answer.
  int run(const Contestant& one);
  // Seconds of one call, to choose among ways to do the same: the median of a few samples of a millisecond, fewer of
  // long calls, after a warm-up. 0 with the driver's answer in `code`.
  double median_of(const Contestant& one, int& code);
  // One call after the second cache was filled with other data.
  double cold(const Contestant& one, int& code);
  // Round by round, each in a random order of its own, the same in every run.
  std::vector<Times> interleave(const std::vector<Contestant>& all, const TimingOptions& options);

 private:
  struct Recorded {
    cuda::Handle graph = nullptr;  // null: single calls are put into the stream
    int calls = 1;
  };
  Recorded record(const Contestant& one, int calls);
  void forget(Recorded& recorded);
  int enqueue(const Recorded& recorded, const Contestant& one);
  double play(const Recorded& recorded, const Contestant& one, int& code);
  // As many calls as a sample of so long has, recorded; `calls` is 0 where it fails, with the driver's answer in
  // `code`.
  Recorded record_sample(const Contestant& one, double seconds, int& code);
  void warm_up(const std::vector<Contestant>& all, const std::vector<Recorded>& recorded, double seconds);
  template <class Work>
  double between_events(Work work, int& code);

  const cuda::Api& api_;
  device::Device& device_;
  cuda::Handle stream_, begin_ = nullptr, end_ = nullptr;
  device::Memory flush_;
};

}  // namespace tw::gpu_bench
