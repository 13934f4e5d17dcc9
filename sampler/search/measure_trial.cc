#include "sampler/search/measure_trial.h"

#include <algorithm>
#include <cmath>

#include "dsl/base/text.h"

namespace tw {
namespace {

// A kernel that is faster by less than this does not become the best: confirming it costs more than it gains.
constexpr double kTie = 2e-3;

// Seconds that no candidate of interest needs for its two checked calls: at 2.5e9 multiply-adds a second and thread, a
// tenth of what a slow core does; where there is a best kernel, three times its calls.
double slow_calls(const MeasuredTask& task) {
  constexpr double kSlow = 2.5e9;
  double seconds = task.points / kSlow / std::max(1, task.target.threads);
  return std::min(seconds, 6 * task.best_seconds);
}

// Calls that take longer are not repeated: see MeasureOptions::checked_call_seconds.
constexpr double kLongCall = 0.25;

// Of a candidate that is far slower than the best kernel little more is asked than that it is right: beyond
// kFarSlower times the best its checked calls are the measurement, beyond kHopeless times the first of them. A call may
// be disturbed for kDisturbed, two of them one after the other for kDisturbedTwice.
constexpr double kFarSlower = 4, kHopeless = 20, kDisturbed = 0.1, kDisturbedTwice = 1e-2;

void shorten_for_slow_ones(MeasureOptions& options, double best) {
  options.checked_call_seconds = std::min(kLongCall, kFarSlower * best + kDisturbedTwice);
  options.single_call_seconds = kHopeless * best + kDisturbed;
}

MeasureOptions options_of(const MeasuredTask& task, bool is_baseline) {
  MeasureOptions options{.incumbent = task.incumbent,
                         .threads = task.target.threads,
                         .least_flops = task.least_flops,
                         .pairs = 4,
                         .max_pairs = 6,
                         .budget_seconds = 0.04};
  options.cold_caches = task.timing == Timing::Cold;
  if (is_device(task.target))
    options.cold_samples = kColdSamplesOfTrial;
  else if (options.cold_caches)
    options.pairs = 8, options.max_pairs = 16;  // of single calls, which vary more
  options.timeout_seconds = std::max(options.timeout_seconds, slow_calls(task));
  options.checked_call_seconds = kLongCall;
  if (std::isfinite(task.best_seconds) && !is_device(task.target)) shorten_for_slow_ones(options, task.best_seconds);
  options.confirmation.below = is_device(task.target) ? 0 : 1 - kTie;
  if (task.best_seconds > kLongCall && std::isfinite(task.best_seconds)) {
    options.incumbent = nullptr;
    options.single_call_seconds = 1.3 * task.best_seconds;  // which can be no best one
  }
  if (is_baseline) {  // may take seconds a call: one says enough
    options.incumbent = nullptr;
    options.timeout_seconds = std::max(options.timeout_seconds, is_device(task.target) ? 6.0 : 30.0);
    options.single_call_seconds = 0.02;
    options.first_pairs = options.pairs = options.max_pairs = 1;
  }
  return options;
}

// On a device. Also the first of all, which has nothing to be timed in turn with, and what may have been disturbed: it
// is the host that was.
bool may_be_best(const MeasuredTask& task, const MeasureResult& measured, bool is_baseline) {
  bool is_faster = measured.ratio > 0 && measured.ratio < 1;
  bool is_timed = measured.status == MeasureStatus::Ok || measured.status == MeasureStatus::Noisy;
  return is_timed && !is_baseline && (is_faster || measured.seconds < task.best_seconds);
}

// Once more if the worker was lost: somebody may have killed it. A kernel that kills it twice is a failed one.
MeasureResult measure_kernel(Measurer& measurer, int task, const Kernel& kernel, const MeasureOptions& options,
                             TuneProfile& profile) {
  MeasureResult measured = measurer.measure(task, kernel, options);
  bool is_again = measured.status == MeasureStatus::WorkerLost && !measured.was_stopped;
  if (is_again) measured = measurer.measure(task, kernel, options);
  ++profile.measurements;
  profile.pairs += measured.pairs;
  for (double MeasureSeconds::* part : {&MeasureSeconds::buffers, &MeasureSeconds::start, &MeasureSeconds::run,
                                        &MeasureSeconds::compare, &MeasureSeconds::timing})
    profile.parts.*part += measured.parts.*part;
  return measured;
}

}  // namespace

MeasureResult measure_trial(Measurer& measurer, const MeasuredTask& task, const Kernel& kernel, bool is_baseline,
                            TuneProfile& profile) {
  MeasureOptions options = options_of(task, is_baseline);
  auto measure = [&] {
    MeasureResult measured = measure_kernel(measurer, task.worker_task, kernel, options, profile);
    if (measured.ratio > 0 && task.incumbent_seconds > 0) measured.seconds = measured.ratio * task.incumbent_seconds;
    return measured;
  };
  MeasureResult measured = measure();
  // Once more where others disturbed it: a thread that waits for a core makes the first call with new data look slow,
  // too.
  if (measured.status == MeasureStatus::Noisy || measured.status == MeasureStatus::Cheat) measured = measure();
  if (!is_device(task.target)) {
    // Timed in turn with the incumbent it is not faster, so it must not become the best by comparison with the
    // incumbent's older record.
    if (measured.ratio >= 1 - kTie && std::isfinite(task.best_seconds))
      measured.seconds = std::max(measured.seconds, task.best_seconds);
  } else if (may_be_best(task, measured, is_baseline)) {
    // On a device a new best is believed only if a second, longer measurement confirms it, of 20 pairs and more
    // wherever a call takes less than 25 ms, with a time for cold caches. That one counts. Workers of processors do
    // this by MeasureOptions::confirmation.
    options.pairs = 20, options.max_pairs = 32, options.budget_seconds = 1, options.cold_samples = kColdSamples;
    measured = measure();
  }
  return measured;
}

void set_same_code(Record& record, i64 other) {
  record.status = Record::same_code;
  record.error = cat("as record ", other);
}

}  // namespace tw
