// Calibrator: how fast this machine is just now, by a few fixed kernels: one limited by arithmetic, one by the second
// cache, one by the bandwidth of memory (calibration_kernels.h). They are measured as any trial. Used
// by own_classes.h, which compares the times with those of other machines (runtime/fleet/machine_class.h).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/fleet/machine_class.h"
#include "sampler/search/task_reference.h"

namespace tw {

struct Calibration {
  CalibrationTimes times;  // empty: it failed, or was stopped
  std::string error;       // why it failed
  bool is_steady = false;  // the two smallest times of each kernel are within a percent of each other
  double seconds = 0;      // that it took
};

// What calibrates a machine for one target. `must_stop` ends it early.
using Calibrate = std::function<Calibration(const std::function<bool()>& must_stop)>;

struct CalibrationKernel {
  std::string name;
  bool is_cold = false;  // it is timed with cold caches
  TaskReference reference;
  Kernel kernel;
};
struct CalibrationKernels {
  std::vector<CalibrationKernel> kernels;
  std::string problem;  // why there are none
};
// Where the kernels come from: they are compiled, or were built by others. `must_stop` ends it early.
using CalibrationSource = std::function<CalibrationKernels(const std::function<bool()>& must_stop)>;

class Calibrator {
 public:
  // The measurer is that of the target; it must outlive this.
  Calibrator(Measurer& measurer, const Target& target, CalibrationSource source)
      : measurer_(measurer), target_(target), source_(std::move(source)) {}
  ~Calibrator();
  Calibrator(const Calibrator&) = delete;

  // Measures the kernels in turn, several times, for at most kCalibrationSeconds; less where the times are steady. The
  // time of a kernel is the second smallest of all: others make a call slower, and one that was lucky counts for
  // nothing. The first call also asks for the kernels.
  Calibration run(const std::function<bool()>& must_stop);

 private:
  std::string prepare(const std::function<bool()>& must_stop);
  std::string measure(std::size_t i, std::vector<double>& seconds) const;

  Measurer& measurer_;
  Target target_;
  CalibrationSource source_;
  std::vector<CalibrationKernel> kernels_;
  std::vector<int> tasks_;  // of the measurer: one for each kernel
};
inline constexpr double kCalibrationSeconds = 1.2;
Calibrate calibration_with(Measurer& measurer, const Target& target, CalibrationSource source);

}  // namespace tw
