// MeasuringMachine: lends this machine to the tuners of a database. It leases trials for the targets that it measures
// for, replays their traces, compiles, runs and times them as a tuner's own worker would, and writes the results.
// `tracewright measure` is this.
//
// By default the machine code of nobody else runs here: what it takes from the database is text, workloads and traces.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/fleet/heartbeat.h"
#include "runtime/fleet/lasting_queue.h"
#include "runtime/fleet/machine_metrics.h"
#include "runtime/fleet/result_batch.h"
#include "sampler/fleet/fleet_task.h"
#include "sampler/fleet/kernel_source.h"
#include "sampler/fleet/machine_targets.h"
#include "sampler/fleet/own_classes.h"
#include "sampler/search/builds_ahead.h"

namespace tw {

struct MachineOptions {
  std::string address;     // of the database
  FleetMachine announced;  // what others are shown of this machine: name, host, version, targets, memory
  std::function<std::string(const Target&)> why_no_device;  // see MachineTargets
  std::function<WorkerStart(const Target&)> start_worker;   // that measures for a target
  std::shared_ptr<MachineMetrics> metrics = nullptr;        // what it does is counted there, too
  i64 calibrate_every = kTrialsBetweenCalibrations;         // see OwnClasses
  double aside_seconds = kAsideSeconds;
  // Gives what calibrates this machine for a target, or nothing: then it counts as the first class of its kind.
  // Empty: what `kernels` gives.
  std::function<Calibrate(Measurer&, const Target&)> calibrator;
  std::shared_ptr<KernelSource> kernels = compile_here();
};

// What a machine has done.
struct MachineReport {
  MachineCounts counts;  // of results that were accepted, and of those that were late or repeated
  i64 given_back = 0;    // trials that go to others
  i64 calibrations = 0, times_aside = 0;
  std::string error;  // why it ended by itself; "" = it was stopped
};

class MeasuringMachine {
 public:
  MeasuringMachine(MachineOptions options, Waiting waiting);
  // Until `waiting` says that it must stop; then the trials at hand go back.
  MachineReport run();

 private:
  using Builds = BuildsAhead<BuiltFleetTrial>;
  // Trials that are leased together. Kernels of those of the first task may be on their way.
  struct Lease {
    std::vector<LeasedTrial> trials;
    std::unique_ptr<Builds> builds;
  };
  // A trial that was measured. Its result is written while the next one is measured, or a later one (result_batch.h).
  struct Unwritten {
    LeasedTrial leased;
    FleetTask* task = nullptr;
    Record record;
    std::optional<Hash128> object;  // of a kernel that was measured
    double seconds = 0;             // that the trial took
  };
  struct OpenWorker {
    std::string program;
    int device = -1;
    std::unique_ptr<Measurer> measurer;
  };

  bool open();
  bool announce();
  DatabaseStatus reopen_database();
  bool add_class(const std::string& host, const Target& target);
  bool has_new_target(const std::vector<MeasuredTarget>& wanted);
  bool keep_up(const std::vector<MeasuredTarget>& wanted);
  std::vector<MeasuredTarget> own_targets(const std::vector<MeasuredTarget>& wanted);
  std::optional<MeasuredTarget> own_target(const MeasuredTarget& wanted);
  std::optional<std::vector<MeasuredTarget>> wanted_targets();
  std::optional<Lease> next_lease();
  bool lease_ahead();
  int lease_size() const;
  bool measure_all(Lease& lease);
  bool measure_group(std::span<const LeasedTrial> trials, std::unique_ptr<Builds> builds, bool is_last);
  bool ask_for_results(FleetTask& task, std::span<const LeasedTrial> trials);
  bool open_database_again(const std::string& why);
  std::unique_ptr<Builds> begin_builds(const FleetTask& task, std::span<const LeasedTrial> trials) const;
  bool measure(const LeasedTrial& leased, FleetTask& task, BuiltFleetTrial made, bool is_last);
  bool measure_kernel(const LeasedTrial& leased, FleetTask& task, Unwritten result, Kernel kernel, bool is_last);
  bool is_needed_for(const LeasedTrial& leased, const FleetTask& task, const Hash128& object) const;
  bool write_results(const Waiting& waiting);
  bool write_overdue();
  bool end_with_fault(const LeasedTrial& leased, const TrialFault& fault);
  bool end_with_record(const Unwritten& result);
  bool note_finished(const Unwritten& result, const std::optional<Finished>& finished);
  bool count(const std::optional<Finished>& finished, i64 MachineCounts::* kind, std::string_view result,
             double seconds);
  FleetTask* open_task(const QueuedTrial& trial, TrialFault& fault);
  bool begin_task(FleetTask& task, TrialFault& fault);
  Measurer* worker_for(const Target& target);
  void make_room(double bytes);
  void close_first();
  bool fail(const std::string& why);

  MachineOptions options_;
  Waiting waiting_;
  MachineTargets targets_;
  MachineReport report_;
  std::optional<LastingQueue> queue_;
  std::optional<Database> database_;
  std::unique_ptr<Heartbeat> heartbeat_;
  std::atomic<i64> id_ = 0;
  std::atomic<bool> is_unknown_ = false;  // the database has forgotten this machine
  int reconnections_ = 0;                 // of the queue, when the database was opened; -1 = it is to be opened again
  int failures_ = 0;                      // of the database, one behind the other
  double trial_began_ = 0;                // seconds_now() of the trial at hand
  double trial_seconds_ = 0;              // of the trials of the last lease, on average
  std::vector<OpenWorker> workers_;
  std::vector<std::unique_ptr<FleetTask>> tasks_;  // open in workers, the latest used last
  ResultBatch<Unwritten> unwritten_;
  std::optional<Lease> ahead_;  // leased while the last trial before it was measured
  OwnClasses classes_;
  std::string calibration_problem_;  // that was said last
  i64 class_changes_ = 0;            // OwnClasses::changes() that the open tasks know
  TuneProfile profile_;
};

}  // namespace tw
