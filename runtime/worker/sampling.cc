#include "runtime/worker/sampling.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "dsl/base/quantile.h"
#include "runtime/measure/slower_test.h"
#include "runtime/worker/flush_lines.h"

namespace tw {
namespace {

constexpr int kRetries = 6;
constexpr double kWaitedPart = 0.01;  // of a sample
constexpr double kLongSample = 2;     // of sample_seconds: a call that takes longer is called once to warm up
constexpr double kTickPart =
    0.5;  // of the time between two interrupts of the system's clock: longer samples have one more often than not
constexpr double kAgreeing = 0.02;  // quartile distance of the ratios of pairs, as a part of their median
constexpr double kBusy = 1.25;      // median of samples that so exceeds their smallest says that others use the cores

i64 nanoseconds(const timespec& time) { return static_cast<i64>(time.tv_sec) * 1000000000 + time.tv_nsec; }
i64 nanoseconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return nanoseconds(now);
}

// The coarse clock moves with the interrupts of the system's clock, so its resolution is the time between two of them.
i64 tick_period() {
  timespec period{};
  clock_getres(CLOCK_MONOTONIC_COARSE, &period);
  return nanoseconds(period);
}

struct Spread {
  double lower = 0, median = 0, upper = 0;
  // Of the median, as a part of it.
  double precision(std::size_t count) const { return (upper - lower) / std::sqrt(static_cast<double>(count)) / median; }
};
Spread spread_of(std::vector<double> values) {
  return {quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75)};
}

struct Sampler {
  const BoundKernel& candidate;
  const BoundKernel* incumbent;
  const MeasureOptions& options;
  int schedstat;
  SampleLog& log;
  SlowerTest slower;
  int candidates_from = 0;  // in the log: behind the incumbent's warm-up

  // Preemptions and waits of this process so far, by cheap system calls that stay allowed, and when the system's clock
  // interrupted last. Such an interrupt takes 20 to 80 us in a virtual machine, which is several percent of a short
  // sample.
  struct Disturbances {
    i64 preempted = 0, waited = 0, tick = 0;
  };
  Disturbances disturbances() const {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return {usage.ru_nivcsw, read_run_delay(schedstat), nanoseconds_of(CLOCK_MONOTONIC_COARSE)};
  }
  static bool was_disturbed(const Disturbances& before, const Disturbances& after, i64 took) {
    double time = static_cast<double>(took);
    return after.preempted != before.preempted ||
           static_cast<double>(after.waited - before.waited) > kWaitedPart * time ||
           (after.tick != before.tick && time < kTickPart * static_cast<double>(tick_period()));
  }

  static std::int32_t call(const BoundKernel& kernel, int calls, i64& nanoseconds) {
    if (kernel.timed) return kernel.timed(kernel.pool, calls, nanoseconds);
    i64 begin = monotonic_nanoseconds();
    std::int32_t returned = 0;
    for (int i = 0; i < calls; ++i) returned |= kernel.call();
    nanoseconds = monotonic_nanoseconds() - begin;
    return returned;
  }

  void flush(const BoundKernel& kernel) {
    if (kernel.cold.empty()) return;
    i64 begin = monotonic_nanoseconds();
    for (std::span<const char> operand : kernel.cold) flush_lines(operand);
    log.flush_nanoseconds += monotonic_nanoseconds() - begin;
  }

  Sample take(const BoundKernel& kernel, int calls, SampleKind kind, int pair) {
    flush(kernel);
    Disturbances before = disturbances();
    i64 took = 0;
    std::int32_t returned = call(kernel, calls, took);
    Disturbances after = disturbances();
    if (returned != 0 && log.returned == 0 && &kernel == &candidate) log.returned = returned;
    Sample sample{took, calls, static_cast<std::int16_t>(pair), kind,
                  !kernel.is_undisturbed && was_disturbed(before, after, took)};
    if (log.count < kMaxSamples) log.samples[log.count++] = sample;
    return sample;
  }

  // Calls per sample.
  int warm_up(const BoundKernel& kernel) {
    double wanted = options.sample_seconds * 1e9;
    i64 took = take(kernel, 1, SampleKind::WarmUp, -1).nanoseconds;
    if (!kernel.cold.empty()) return 1;
    if (static_cast<double>(took) < kLongSample * wanted)
      took = std::min(took, take(kernel, 1, SampleKind::WarmUp, -1).nanoseconds);
    // A call of a few nanoseconds is mostly clock: look again with more of them.
    if (static_cast<double>(took) < wanted / 20) took = take(kernel, 20, SampleKind::WarmUp, -1).nanoseconds / 20;
    double calls = std::ceil(wanted / static_cast<double>(std::max<i64>(took, 1)));
    return static_cast<int>(std::clamp(calls, 1.0, 1e6));
  }

  // Disturbed only if every retry was.
  Sample take_again_if_disturbed(const BoundKernel& kernel, int calls, SampleKind kind, int pair) {
    Sample sample = take(kernel, calls, kind, pair);
    for (int retry = 0; retry < kRetries && sample.disturbed; ++retry) sample = take(kernel, calls, kind, pair);
    return sample;
  }

  // Candidate time per call, divided by the incumbent's if there is one.
  double take_pair(int pair, int candidate_calls, int incumbent_calls) {
    Sample first;
    if (incumbent) first = take_again_if_disturbed(*incumbent, incumbent_calls, SampleKind::Incumbent, pair);
    Sample second = take_again_if_disturbed(candidate, candidate_calls, SampleKind::Candidate, pair);
    double time = static_cast<double>(second.nanoseconds) / second.calls;
    if (!incumbent) return time;
    double ratio = time * first.calls / static_cast<double>(std::max<i64>(first.nanoseconds, 1));
    if (!first.disturbed && !second.disturbed) slower.add(ratio);
    return ratio;
  }

  // Judged by all calls so far, warm-up included.
  bool takes_twice_as_long() const {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (int i = 0; i < log.count; ++i) {
      const Sample& sample = log.samples[i];
      double time = static_cast<double>(sample.nanoseconds) / sample.calls;
      bool is_candidate =
          sample.kind == SampleKind::Candidate || (sample.kind == SampleKind::WarmUp && i >= candidates_from);
      if (is_candidate)
        least = std::min(least, time);
      else
        most = std::max(most, time);
    }
    return incumbent && least > 2 * most;
  }

  bool is_enough(const std::vector<double>& values, double elapsed) const {
    int count = static_cast<int>(values.size());
    if (slower.is_slower() || count >= options.max_pairs || log.count + 2 * kRetries + 2 > kMaxSamples) return true;
    if (elapsed > options.budget_seconds && (count >= options.first_pairs || takes_twice_as_long())) return true;
    return count >= std::max(options.pairs, options.first_pairs) &&
           spread_of(values).precision(values.size()) < options.precision;
  }

  void run() {
    log.count = 0, log.flush_nanoseconds = 0;
    i64 begin = monotonic_nanoseconds();
    int incumbent_calls = incumbent ? warm_up(*incumbent) : 0;
    candidates_from = log.count;
    int candidate_calls = warm_up(candidate);
    std::vector<double> values;
    do {
      values.push_back(take_pair(static_cast<int>(values.size()), candidate_calls, incumbent_calls));
    } while (!is_enough(values, static_cast<double>(monotonic_nanoseconds() - begin) * 1e-9));
  }
};

}  // namespace

i64 monotonic_nanoseconds() { return nanoseconds_of(CLOCK_MONOTONIC); }

i64 read_run_delay(int schedstat) {
  char text[64];
  ssize_t got = schedstat < 0 ? -1 : pread(schedstat, text, sizeof text - 1, 0);
  if (got <= 0) return -1;
  text[got] = 0;
  char* second = nullptr;
  std::strtoll(text, &second, 10);
  return std::strtoll(second, nullptr, 10);
}

void take_samples(const BoundKernel& candidate, const BoundKernel* incumbent, const MeasureOptions& options,
                  int schedstat, SampleLog& log) {
  Sampler{candidate, incumbent, options, schedstat, log, SlowerTest(options.lost, options.noise)}.run();
}

void evaluate_samples(const std::vector<Sample>& samples, const MeasureOptions& options, bool has_incumbent,
                      double incumbent_seconds, MeasureResult& result) {
  auto per_call = [](const Sample& sample) {
    return static_cast<double>(sample.nanoseconds) * 1e-9 / std::max(sample.calls, 1);
  };
  std::vector<double> times, ratios, undisturbed_times, undisturbed_ratios, incumbent_times, undisturbed_incumbent;
  const Sample* partner = nullptr;  // the incumbent's sample just before
  SlowerTest slower(options.lost, options.noise);
  for (const Sample& sample : samples) {
    if (sample.kind == SampleKind::WarmUp) continue;
    result.disturbed += sample.disturbed;
    if (sample.kind == SampleKind::Incumbent) {
      partner = &sample;
      incumbent_times.push_back(per_call(sample));
      if (!sample.disturbed) undisturbed_incumbent.push_back(per_call(sample));
      continue;
    }
    bool disturbed = sample.disturbed || (partner && partner->disturbed);
    times.push_back(per_call(sample));
    if (!disturbed) undisturbed_times.push_back(times.back());
    if (!partner) continue;
    ratios.push_back(times.back() / per_call(*partner));
    if (disturbed) continue;
    undisturbed_ratios.push_back(ratios.back());
    slower.add(ratios.back());
  }
  std::size_t wanted = has_incumbent ? 1 : static_cast<std::size_t>(options.first_pairs);
  bool noisy = undisturbed_times.size() < std::min(wanted, times.size());
  if (!noisy) times = undisturbed_times, ratios = undisturbed_ratios;
  Spread time = spread_of(times), ratio = spread_of(ratios);
  Spread incumbent = spread_of(noisy || undisturbed_incumbent.empty() ? incumbent_times : undisturbed_incumbent);
  result.min_seconds = quantile(times, 0);
  result.median_seconds = time.median;
  double best_incumbent = quantile(incumbent_times, 0);
  result.incumbent_seconds = best_incumbent;
  result.pairs = static_cast<int>(times.size());
  result.is_slower = slower.is_slower();
  result.noise = noise_of(undisturbed_incumbent);
  // Where pairs disagree, most of what disturbed them made samples longer: then lower quartiles lie nearer to the truth
  // than the median of the ratios.
  bool do_agree = ratio.upper - ratio.lower < kAgreeing * ratio.median;
  result.ratio = !has_incumbent ? 0 : do_agree ? ratio.median : time.lower / incumbent.lower;
  // Nobody says when others take a core from the second thread of a kernel. Then the incumbent's samples spread, and
  // kernels with fewer threads look better beside it than they are: the smallest times are compared.
  if (best_incumbent > 0 && spread_of(incumbent_times).median > kBusy * best_incumbent)
    result.ratio = std::max(result.ratio, result.min_seconds / best_incumbent);
  result.lower_quartile = has_incumbent ? ratio.lower : time.lower;
  result.upper_quartile = has_incumbent ? ratio.upper : time.upper;
  if (incumbent_seconds > 0) best_incumbent = std::min(best_incumbent, incumbent_seconds);
  result.seconds = has_incumbent ? result.ratio * best_incumbent : result.min_seconds;
  // The ratio of disturbed samples may say anything: such a kernel is no faster than it was seen to be.
  if (noisy) result.seconds = std::max(result.seconds, result.min_seconds);
  result.status = noisy ? MeasureStatus::Noisy : MeasureStatus::Ok;
  if (noisy) result.message = "every sample was disturbed by other processes";
}

void count_shortest_sample(MeasureResult& result) {
  result.ratio *= result.min_seconds / result.seconds;
  result.seconds = result.min_seconds;
}

MeasureResult confirmed(const MeasureResult& first, MeasureResult second) {
  if (second.status != MeasureStatus::Ok || second.seconds >= first.seconds) return second;
  MeasureResult counts = first;
  counts.parts = second.parts;
  return counts;
}

}  // namespace tw
