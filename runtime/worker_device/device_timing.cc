#include "runtime/worker_device/device_timing.h"

#include <algorithm>
#include <cmath>

#include "dsl/base/quantile.h"
#include "runtime/worker/sampling.h"

namespace tw {
namespace {

constexpr int kDeviceTimings = 3, kWarmTimings = 3, kFewestCold = 3;
constexpr i64 kFewestFlushed = i64{64} << 20, kFlushedIfUnknown = i64{256} << 20;

// What the sampler calls.
std::int32_t run_timed(void* kernel, int calls, i64& nanoseconds) {
  return static_cast<device::LoadedKernel*>(kernel)->run(calls, nanoseconds);
}

struct ColdKernel {
  device::LoadedKernel* kernel = nullptr;
  device::Memory* flush = nullptr;
};
std::int32_t run_timed_cold(void* cold, int calls, i64& nanoseconds) {
  auto [kernel, flush] = *static_cast<ColdKernel*>(cold);
  double all = 0;
  int code = 0;
  for (int i = 0; i < calls && code == 0; ++i) {
    double seconds = 0;
    code = kernel->run_cold(*flush, seconds);
    all += seconds;
  }
  nanoseconds = std::llround(all * 1e9);
  return code;
}

BoundKernel bound(ColdKernel& kernel) {
  BoundKernel out{.is_undisturbed = device::kTimesAreTheDevices};
  if (kernel.flush)
    out.pool = &kernel, out.timed = run_timed_cold;
  else
    out.pool = kernel.kernel, out.timed = run_timed;
  return out;
}

// Tells when the clock of a device that has waited for the host has risen: it is near the most, or has not risen for a
// while. Where the device does not tell its clock, that while must do.
class ClockRise {
 public:
  explicit ClockRise(const device::Device& gpu) : gpu_(gpu) {}
  bool is_over() {
    constexpr double kNear = 0.97, kWhile = 0.02;
    i64 now = monotonic_nanoseconds();
    int mhz = gpu_.clock_mhz();
    if (mhz > highest_) highest_ = mhz, risen_ = now;
    bool is_near = mhz > 0 && mhz >= kNear * gpu_.most_clock_mhz();
    return is_near || static_cast<double>(now - risen_) > kWhile * 1e9;
  }

 private:
  const device::Device& gpu_;
  int highest_ = 0;
  i64 risen_ = monotonic_nanoseconds();
};

// Until two samples agree and the clock has risen, or so long. 0, or the driver's answer.
int warm_up(const device::Device& gpu, device::LoadedKernel& kernel) {
  constexpr double kSeconds = 0.5, kSampleNanoseconds = 5e5, kAgree = 0.02;
  constexpr int kMostCalls = 64;
  ClockRise rise(gpu);
  i64 begin = monotonic_nanoseconds(), took = 0;
  int code = kernel.run(1, took);
  int calls = static_cast<int>(
      std::clamp(kSampleNanoseconds / static_cast<double>(std::max<i64>(took, 1)), 1.0, double{kMostCalls}));
  for (i64 before = 0; code == 0 && static_cast<double>(monotonic_nanoseconds() - begin) < kSeconds * 1e9;
       before = took) {
    code = kernel.run(calls, took);
    bool has_risen = rise.is_over();
    if (has_risen && std::abs(static_cast<double>(took - before)) < kAgree * static_cast<double>(took)) break;
  }
  return code;
}

// Fills in the times with warm caches where the score is of cold ones. Samples are short, as nothing is ranked by them.
int time_warm(device::LoadedKernel& kernel, const MeasureOptions& options, MeasureResult& result) {
  std::vector<double> times;
  i64 took = 0;
  int code = kernel.run(1, took);
  int calls = static_cast<int>(
      std::clamp(options.sample_seconds * 1e9 / static_cast<double>(std::max<i64>(took, 1)), 1.0, 64.0));
  for (int i = 0; i < kWarmTimings && code == 0; ++i) {
    code = kernel.run(calls, took);
    times.push_back(static_cast<double>(took) * 1e-9 / calls);
  }
  if (code != 0) return code;
  result.min_seconds = *std::ranges::min_element(times);
  result.median_seconds = median(std::move(times));
  return 0;
}

}  // namespace

device::Memory* CacheFlush::memory() {
  if (!memory_) {
    i64 caches = gpu_.cache_bytes();
    memory_ =
        std::make_unique<device::Memory>(gpu_, caches > 0 ? std::max(kFewestFlushed, 2 * caches) : kFlushedIfUnknown);
  }
  return memory_->is_there() ? memory_.get() : nullptr;
}

int time_kernel(const device::Device& gpu, device::LoadedKernel& candidate, device::LoadedKernel* incumbent,
                double incumbent_seconds, device::Memory* flush, const MeasureOptions& options, int schedstat,
                MeasureResult& result) {
  auto log = std::make_unique<SampleLog>();
  ColdKernel timed{&candidate, flush}, other{incumbent, flush};
  BoundKernel bound_timed = bound(timed), bound_other = bound(other);
  if (int code = device::kTimesAreTheDevices ? warm_up(gpu, candidate) : 0; code != 0) return code;
  take_samples(bound_timed, incumbent ? &bound_other : nullptr, options, schedstat, *log);
  if (log->returned != 0) return log->returned;
  std::vector<Sample> samples(log->samples, log->samples + log->count);
  evaluate_samples(samples, options, incumbent != nullptr, incumbent_seconds, result);
  if (flush) {
    result.cold_seconds = result.median_seconds;
    if (int code = time_warm(candidate, options, result); code != 0) return code;
  }
  if (device::kTimesAreTheDevices) return result.device_seconds = result.min_seconds, 0;
  for (int i = 0; i < kDeviceTimings; ++i) {
    double seconds = 0;
    if (int code = candidate.run(seconds); code != 0) return code;
    result.device_seconds = i == 0 ? seconds : std::min(result.device_seconds, seconds);
  }
  return 0;
}

int time_cold(device::LoadedKernel& kernel, device::Memory& flush, const MeasureOptions& options, double& seconds) {
  std::vector<double> times;
  i64 begin = monotonic_nanoseconds();
  auto has_time = [&] { return static_cast<double>(monotonic_nanoseconds() - begin) * 1e-9 < options.budget_seconds; };
  for (int i = 0; i < options.cold_samples && (i < kFewestCold || has_time()); ++i) {
    if (int code = kernel.run_cold(flush, times.emplace_back()); code != 0) return code;
  }
  seconds = median(std::move(times));
  return 0;
}

}  // namespace tw
