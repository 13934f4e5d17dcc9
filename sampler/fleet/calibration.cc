#include "sampler/fleet/calibration.h"

#include <algorithm>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "sampler/search/measure_trial.h"

namespace tw {
namespace {

constexpr std::size_t kLeastRounds = 10;
constexpr double kSteady = 1.01;  // second smallest by smallest time

// The second smallest, once there are so many.
double time_of(const std::vector<double>& sorted) { return sorted[std::min<std::size_t>(1, sorted.size() - 1)]; }

bool is_steady(const std::vector<double>& sorted) {
  return sorted.size() >= kLeastRounds && sorted[1] <= kSteady * sorted[0];
}

}  // namespace

Calibrator::~Calibrator() {
  for (int task : tasks_) measurer_.end_task(task);
}

// Returns what is wrong; "" where it is done, or was stopped.
std::string Calibrator::prepare(const std::function<bool()>& must_stop) {
  if (kernels_.empty()) {
    CalibrationKernels made = source_(must_stop);
    if (made.kernels.empty()) return made.problem;
    kernels_ = std::move(made.kernels);
  }
  while (tasks_.size() < kernels_.size() && !must_stop()) {
    const CalibrationKernel& kernel = kernels_[tasks_.size()];
    TaskStart start = begin_referenced_task(measurer_, kernel.reference);
    if (start.task < 0) return start.was_stopped ? "" : cat("the kernel `", kernel.name, "`: ", start.error);
    tasks_.push_back(start.task);
  }
  return "";
}

// Adds one time. Returns what is wrong.
std::string Calibrator::measure(std::size_t i, std::vector<double>& seconds) const {
  const CalibrationKernel& kernel = kernels_[i];
  MeasureOptions options{.threads = target_.threads, .pairs = 8, .max_pairs = 8, .budget_seconds = 0.05};
  if (is_device(target_))
    options.cold_samples = kernel.is_cold ? kColdSamples : 0;
  else
    options.cold_caches = kernel.is_cold;
  MeasureResult measured = measurer_.measure(tasks_[i], kernel.kernel, options);
  if (measured.was_stopped) return "";
  if (measured.status != MeasureStatus::Ok && measured.status != MeasureStatus::Noisy)
    return cat("the kernel `", kernel.name, "`: ", name_of(measured.status), ": ", measured.message);
  double time =
      is_device(target_) && kernel.is_cold && measured.cold_seconds > 0 ? measured.cold_seconds : measured.seconds;
  seconds.insert(std::ranges::upper_bound(seconds, time), time);
  return "";
}

Calibration Calibrator::run(const std::function<bool()>& must_stop) {
  double begin = seconds_now();
  Calibration result{.error = prepare(must_stop)};
  std::vector<std::vector<double>> seconds(tasks_.size());
  double measuring = seconds_now();
  bool is_over = !result.error.empty() || must_stop();
  while (!is_over) {
    for (std::size_t i = 0; i < tasks_.size() && !must_stop(); ++i) {
      if (result.error.empty()) result.error = measure(i, seconds[i]);
    }
    result.is_steady = std::ranges::all_of(seconds, is_steady);
    is_over =
        !result.error.empty() || must_stop() || result.is_steady || seconds_now() - measuring >= kCalibrationSeconds;
  }
  bool is_whole = result.error.empty() && !must_stop() && !seconds.empty();
  for (std::size_t i = 0; is_whole && i < seconds.size(); ++i) {
    if (!seconds[i].empty()) result.times.push_back({kernels_[i].name, time_of(seconds[i])});
  }
  if (result.times.size() != kernels_.size()) result.times.clear();
  result.seconds = seconds_now() - begin;
  return result;
}

Calibrate calibration_with(Measurer& measurer, const Target& target, CalibrationSource source) {
  auto calibrator = std::make_shared<Calibrator>(measurer, target, std::move(source));
  return [calibrator](const std::function<bool()>& must_stop) { return calibrator->run(must_stop); };
}

}  // namespace tw
