#include "bench/gpu/timing.h"

#include <algorithm>
#include <cmath>

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

i64 flush_bytes(device::Device& device) { return std::max<i64>(i64{64} << 20, 2 * i64{cuda::attribute_of(device, cuda::L2Bytes)}); }

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

double Clock::play(const Recorded& recorded, const Contestant& one, int& code) {
  return between_events(
      [&] {
        if (recorded.graph) return api_.graph_launch(recorded.graph, stream_);
        int failed = 0;
        for (int i = 0; i < recorded.calls && failed == 0; ++i) failed = one.enqueue();
        return failed;
      },
      code);
}

double Clock::together(const Contestant& one, int calls, int& code) {
  Recorded recorded = record(one, calls);
  double seconds = play(recorded, one, code);
  if (recorded.graph) api_.graph_executable_destroy(recorded.graph);
  return seconds;
}

double Clock::cold(const Contestant& one, int& code) {
  code = api_.set_bytes_async(cuda::address_of(flush_), 1, static_cast<std::size_t>(flush_.bytes()), stream_);
  return code == 0 ? between_events(one.enqueue, code) : 0;
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
    for (int warm_up = 0; warm_up < 2 && code == 0; ++warm_up) together(all[i], 1, code);
    double once = code == 0 ? together(all[i], 1, code) : 0;
    if (failed(i, code)) continue;
    double calls = options.sample_seconds / std::max(once, 1e-7);
    recorded[i] = record(all[i], static_cast<int>(std::clamp(calls, 1.0, double{kMostInGraph})));
  }
  double begin = seconds_now();
  for (int round = 0; round < options.rounds && (round < 5 || seconds_now() - begin < options.budget_seconds); ++round) {
    for (std::size_t turn = 0; turn < all.size(); ++turn) {
      std::size_t i = (turn + static_cast<std::size_t>(round)) % all.size();
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
    if (recorded[i].graph) api_.graph_executable_destroy(recorded[i].graph);
    if (!out[i].problem.empty()) continue;
    std::vector<double> ratio = ratios(hot[i], hot[0]);
    out[i].median = median(hot[i]), out[i].lower = quantile(hot[i], 0.25), out[i].upper = quantile(hot[i], 0.75);
    out[i].ratio = median(ratio), out[i].ratio_lower = quantile(ratio, 0.25), out[i].ratio_upper = quantile(ratio, 0.75);
    out[i].cold = median(cold_samples[i]), out[i].cold_ratio = median(ratios(cold_samples[i], cold_samples[0]));
    out[i].rounds = static_cast<int>(hot[i].size());
  }
  return out;
}

}  // namespace tw::gpu_bench
