// OwnClasses: the classes of machines (runtime/fleet/machine_class.h) that this machine is in, one for its processor
// and one for each of its devices. It says when a calibration is due, has it done, and tells the queue what came of it.
// Used by measuring_machine.h.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "runtime/fleet/lasting_queue.h"
#include "sampler/fleet/calibration.h"

namespace tw {

inline constexpr i64 kTrialsBetweenCalibrations = 200;
inline constexpr double kAsideSeconds = 30;  // between two calibrations of a machine that is set aside

class OwnClasses {
 public:
  // `every`: so many trials lie between two calibrations; 0 = one at the start is enough, but for a machine that is set
  // aside. `aside_seconds`: see kAsideSeconds.
  OwnClasses(i64 every, double aside_seconds, Waiting waiting)
      : every_(every), aside_seconds_(aside_seconds), waiting_(std::move(waiting)) {}

  bool knows(const std::string& host) const { return own_.count(host) > 0; }
  // Calibrates what `host` (Record::host, without a class) names for the first time. What does it is kept.
  void add(const std::string& host, Calibrate calibrate);
  // Without a calibration: it counts as the first class of its kind, whatever its speed.
  void add_uncalibrated(const std::string& host) { own_[host].is = {.number = 1, .host = host}; }
  // Tells the queue of all, with the times that are known: of a machine that has just got its id. False: the queue
  // cannot be used, or it was stopped.
  bool tell(LastingQueue& queue, i64 machine);
  // Calibrates again where that is due. The same.
  bool keep_up(LastingQueue& queue, i64 machine);
  // Has keep_up() something to do?
  bool is_due() const;
  void note_trials(i64 count) { trials_ += count; }

  // Null: it could not be calibrated, and nothing is measured there.
  const Classified* find(const std::string& host) const;
  // How often a machine has got another class; what is open for the old one must be closed.
  i64 changes() const { return changes_; }
  i64 calibrations() const { return calibrations_; }
  i64 times_aside() const { return times_aside_; }

 private:
  struct Own {
    Calibrate calibrate;
    CalibrationTimes times;  // empty: it failed
    Classified is;
    i64 at_trial = 0;
    double at = 0;
  };
  bool is_due(const Own& own) const;
  static bool is_untold(const Own& own) { return own.is.number == 0 && !own.times.empty(); }
  bool measure(const std::string& host, Own& own);
  bool classify(const std::string& host, Own& own, LastingQueue& queue, i64 machine);
  void take(const std::string& host, Own& own, const Classified& found);

  i64 every_;
  double aside_seconds_;
  Waiting waiting_;
  std::map<std::string, Own> own_;  // by host
  i64 trials_ = 0, changes_ = 0, calibrations_ = 0, times_aside_ = 0;
};

}  // namespace tw
