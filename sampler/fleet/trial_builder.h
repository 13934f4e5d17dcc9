// TrialBuilder: compiles trials for machines without a compiler, and signs what it made. It takes trials from the queue
// for the targets that it builds for, replays and checks their traces as a measuring machine does, and stores the
// signed kernels; once for each task its reference, and once for each processor and device of these machines the
// kernels of their calibration. It runs none of it. `tracewright measure --build-for` is this.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/fleet/heartbeat.h"
#include "runtime/fleet/lasting_queue.h"
#include "sampler/fleet/signed_build.h"
#include "sampler/search/builds_ahead.h"

namespace tw {

struct BuilderOptions {
  std::string address;          // of the database
  FleetBuilder announced;       // what others are shown: name, version, targets, key
  std::vector<Target> targets;  // see builds_for()
  int threads = 1;              // that compile
};

// What a builder has done.
struct BuilderReport {
  i64 built = 0;      // trials with a kernel
  i64 failed = 0;     // that cannot be compiled
  i64 faults = 0;     // that ended with a fault
  i64 late = 0;       // that another builder had taken meanwhile, or that were withdrawn
  std::string error;  // why it ended by itself; "" = it was stopped
};

// Does a builder that was told `own` build for `target`? Both must be of one kind; of a processor with the same triple,
// cpu and features, of `cuda` with the same arch. Threads, caches and the number of a device are no matter.
bool builds_for(const Target& own, const Target& target);
// Does it make the kernels of a calibration for `target`? Those of a processor are code for this very processor,
// whatever the machine measures for, so that machines with and without a compiler are in the same classes.
bool calibrates_for(const Target& own, const Target& target);

class TrialBuilder {
 public:
  TrialBuilder(BuilderOptions options, SigningKey key, Waiting waiting);
  // Until `waiting` says that it must stop; then what it has taken goes to others.
  BuilderReport run();

 private:
  // A task whose reference is stored.
  struct OpenTask {
    WantedBuild wanted;
    std::unique_ptr<FleetTask> task;  // null: see fault
    TrialFault fault;
    double stored = 0;  // seconds_now()
  };

  bool open();
  bool announce();
  bool fail(const std::string& why);
  std::optional<std::vector<TakenBuild>> take();
  std::vector<WantedBuild> own_of(const std::vector<WantedBuild>& wanted) const;
  bool build_others();
  std::optional<SignedBytes> build_calibration(const WantedBuild& wanted, const std::string& target);
  std::optional<SignedBytes> build_record(const WantedBuild& wanted, const BuildPurpose& purpose);
  bool build_group(std::span<const TakenBuild> taken);
  std::optional<OpenTask> open_task(const TakenBuild& first);
  bool store(const TakenBuild& taken, BuiltFleetTrial made);

  BuilderOptions options_;
  SigningKey key_;
  Waiting waiting_;
  BuilderReport report_;
  std::optional<LastingQueue> queue_;
  std::optional<Database> database_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::atomic<i64> id_ = 0;
  std::atomic<bool> is_unknown_ = false;  // the database has forgotten this builder
  int failures_ = 0;                      // of the database, one behind the other
  std::vector<WantedBuild> wanted_;       // of the last trials that were taken
  std::vector<OpenTask> tasks_;           // the latest used last
  std::map<std::string, double> others_;  // that are stored and not of a trial: seconds_now() by target and kind
};

}  // namespace tw
