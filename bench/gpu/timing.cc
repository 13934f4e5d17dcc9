#include "bench/gpu/timing.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "dsl/base/clock.h"
#include "dsl/base/quantile.h"
#include "dsl/base/text.h"

namespace tw::gpu_bench {
namespace {

constexpr int kMostInGraph = 64;

const cuda::Api& driver() {
  std::string error;
  return *cuda::api(error);  // never null where a Device exists
}

i64 flush_bytes(device::Device& device) {
  return std::max<i64>(i64{64} << 20, 2 * i64{cuda::attribute_of(device, cuda::L2Bytes)});
}

// Of each round in which both were timed.
std::vector<double> ratios(const std::vector<double>& of, const std::vector<double>& to) {
  std::vector<double> out;
  for (std::size_t i = 0; i < std::min(of.size(), to.size()); ++i) out.push_back(of[i] / to[i]);
  return out;
}

}  // namespace

Clock::Clock(device::Device& device)
    : api_(driver()), device_(device), stream_(cuda::stream_of(device)), flush_(device, flush_bytes(device)) {
  api_.event_create(&begin_, 0);
  api_.event_create(&end_, 0);
}

Clock::~Clock() {
  for (cuda::Handle event : {begin_, end_}) {
    if (event) api_.event_destroy(event);
  }
}

template <class Work>
double Clock::between_events(Work work, int& code) {
  float milliseconds = 0;
  code = api_.event_record(begin_, stream_);
  if (code == 0) code = work();
  if (code == 0) code = api_.event_record(end_, stream_);
  int finished = api_.stream_synchronize(stream_);
  if (code == 0) code = finished;
  if (code == 0) code = api_.event_elapsed(&milliseconds, begin_, end_);
  return code == 0 ? static_cast<double>(milliseconds) * 1e-3 : 0;
}

// Calls are recorded as a graph, where that is possible, so that what a launch costs the processor does not count.
Clock::Recorded Clock::record(const Contestant& one, int calls) {
  Recorded out{nullptr, calls};
  cuda::Handle recorded = nullptr;
  if (api_.begin_capture(stream_, cuda::ThreadLocal) != 0) return out;
  int code = 0;
  for (int i = 0; i < calls && code == 0; ++i) code = one.enqueue();
  bool good = api_.end_capture(stream_, &recorded) == 0 && code == 0;
  if (good && api_.graph_instantiate(&out.graph, recorded, 0) != 0) out.graph = nullptr;
  if (recorded) api_.graph_destroy(recorded);
  return out;
}

void Clock::forget(Recorded& recorded) {
  if (recorded.graph) api_.graph_executable_destroy(recorded.graph);
  recorded.graph = nullptr;
}

int Clock::enqueue(const Recorded& recorded, const Contestant& one) {
  if (recorded.graph) return api_.graph_launch(recorded.graph, stream_);
  int failed = 0;
  for (int i = 0; i < recorded.calls && failed == 0; ++i) failed = one.enqueue();
  return failed;
}

// The same work goes first, untimed: when it ends, the timed one is already in the stream (an event on an idle stream
// would count its launch), and every contestant finds the caches as it leaves them itself.
double Clock::play(const Recorded& recorded, const Contestant& one, int& code) {
  code = enqueue(recorded, one);
  return code == 0 ? between_events([&] { return enqueue(recorded, one); }, code) : 0;
}

int Clock::run(const Contestant& one) {
  int code = one.enqueue(), finished = api_.stream_synchronize(stream_);
  return code != 0 ? code : finished;
}

Clock::Recorded Clock::record_sample(const Contestant& one, double seconds, int& code) {
  Recorded single = record(one, 1);
  double once = play(single, one, code);
  forget(single);
  if (code != 0) return {nullptr, 0};
  return record(one, static_cast<int>(std::clamp(seconds / std::max(once, 1e-7), 1.0, double{kMostInGraph})));
}

double Clock::median_of(const Contestant& one, int& code) {
  constexpr int kSamples = 5;
  constexpr double kSampleSeconds = 1e-3, kWarmSeconds = 0.02, kBudget = 0.1;
  Recorded recorded = record_sample(one, kSampleSeconds, code);
  if (code == 0) warm_up({one}, {recorded}, kWarmSeconds);
  std::vector<double> samples;
  double begin = seconds_now();
  for (int i = 0; i < kSamples && code == 0 && (i == 0 || seconds_now() - begin < kBudget); ++i)
    samples.push_back(play(recorded, one, code) / recorded.calls);
  forget(recorded);
  return code == 0 ? median(samples) : 0;
}

void Clock::warm_up(const std::vector<Contestant>& all, const std::vector<Recorded>& recorded, double seconds) {
  bool is_good = true;
  for (double begin = seconds_now(); is_good && seconds_now() - begin < seconds;) {
    is_good = false;
    for (std::size_t i = 0; i < all.size(); ++i) is_good |= recorded[i].calls > 0 && enqueue(recorded[i], all[i]) == 0;
    is_good &= api_.stream_synchronize(stream_) == 0;
  }
}

double Clock::cold(const Contestant& one, int& code) {
  Recorded single = record(one, 1);
  code = api_.set_bytes_async(cuda::address_of(flush_), 1, static_cast<std::size_t>(flush_.bytes()), stream_);
  double seconds = code == 0 ? between_events([&] { return enqueue(single, one); }, code) : 0;
  forget(single);
  return seconds;
}

std::vector<Times> Clock::interleave(const std::vector<Contestant>& all, const TimingOptions& options) {
  std::vector<Times> out(all.size());
  std::vector<Recorded> recorded(all.size());
  std::vector<std::vector<double>> hot(all.size()), cold_samples(all.size());
  auto failed = [&](std::size_t i, int code) {
    if (code != 0) out[i].problem = cat("it cannot be run: ", device::error_text(code));
    return code != 0;
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    int code = 0;
    recorded[i] = record_sample(all[i], options.sample_seconds, code);
    if (!failed(i, code)) out[i].in_graph = recorded[i].graph != nullptr;
  }
  warm_up(all, recorded, options.warm_seconds);
  std::mt19937 order_of_turns(1);
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  double begin = seconds_now();
  for (int round = 0; round < options.rounds && (round < 5 || seconds_now() - begin < options.budget_seconds);
       ++round) {
    std::shuffle(order.begin(), order.end(), order_of_turns);
    for (std::size_t i : order) {
      int code = 0;
      if (!out[i].problem.empty()) continue;
      double seconds = play(recorded[i], all[i], code) / recorded[i].calls;
      if (!failed(i, code)) hot[i].push_back(seconds);
    }
  }
  for (int round = 0; round < options.cold_rounds && flush_.is_there(); ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      int code = 0;
      if (!out[i].problem.empty()) continue;
      double seconds = cold(all[i], code);
      if (!failed(i, code)) cold_samples[i].push_back(seconds);
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    forget(recorded[i]);
    if (!out[i].problem.empty()) continue;
    std::vector<double> ratio = ratios(hot[i], hot[0]);
    out[i].median = median(hot[i]), out[i].lower = quantile(hot[i], 0.25), out[i].upper = quantile(hot[i], 0.75);
    out[i].ratio = median(ratio), out[i].ratio_lower = quantile(ratio, 0.25),
    out[i].ratio_upper = quantile(ratio, 0.75);
    out[i].cold = median(cold_samples[i]), out[i].cold_ratio = median(ratios(cold_samples[i], cold_samples[0]));
    out[i].rounds = static_cast<int>(hot[i].size());
  }
  return out;
}

}  // namespace tw::gpu_bench
