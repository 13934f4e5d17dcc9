// Calibrator: how fast this machine is just now, by a few fixed kernels: one limited by arithmetic, one by the second
// cache, one by the bandwidth of memory. They are traces, which are replayed, compiled and measured as any trial. Used
// by own_classes.h, which compares the times with those of other machines (runtime/fleet/machine_class.h).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/fleet/machine_class.h"
#include "sampler/search/trial.h"

namespace tw {

struct Calibration {
  CalibrationTimes times;  // empty: it failed, or was stopped
  std::string error;       // why it failed
  bool is_steady = false;  // the two smallest times of each kernel are within a percent of each other
  double seconds = 0;      // that it took
};

// What calibrates a machine for one target. `must_stop` ends it early.
using Calibrate = std::function<Calibration(const std::function<bool()>& must_stop)>;

class Calibrator {
 public:
  // The measurer is that of the target; it must outlive this.
  Calibrator(Measurer& measurer, Target target) : measurer_(measurer), target_(std::move(target)) {}
  ~Calibrator();
  Calibrator(const Calibrator&) = delete;

  // Measures the kernels in turn, several times, for at most kCalibrationSeconds; less where the times are steady. The
  // time of a kernel is the second smallest of all: others make a call slower, and one that was lucky counts for
  // nothing. The first call also compiles the kernels.
  Calibration run(const std::function<bool()>& must_stop);

 private:
  struct Prepared {
    std::string name;
    OwnedProgram program;
    Kernel kernel;
    int task = -1;
    Timing timing = Timing::Warm;
  };
  std::string prepare(const std::function<bool()>& must_stop);
  std::string measure(const Prepared& prepared, std::vector<double>& seconds) const;

  Measurer& measurer_;
  Target target_;
  std::vector<Prepared> prepared_;
};
inline constexpr double kCalibrationSeconds = 1.2;

}  // namespace tw
