// KernelSource: how a measuring machine comes to the kernels of trials. By default it compiles them; a machine without
// a compiler takes what a builder has signed (built_source.h). Used by measuring_machine.h.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "runtime/fleet/lasting_queue.h"
#include "runtime/store/database.h"
#include "sampler/fleet/fleet_task.h"
#include "sampler/fleet/own_classes.h"

namespace tw {

// What a source may ask.
struct FleetAccess {
  Database& database;
  LastingQueue& queue;
  const Waiting& waiting;
};

class KernelSource {
 public:
  virtual ~KernelSource() = default;
  // Answers tuners that want one of these targets, and leases at most `most` trials: of targets for which there are
  // kernels. There may be no target.
  virtual DatabaseResult<std::vector<LeasedTrial>> lease(TrialQueue& queue, i64 machine,
                                                         const std::vector<MeasuredTarget>& targets, int most) = 0;
  // The task of a trial before it is open in a worker. Null, and the fault; without a kind where the database or the
  // queue cannot be asked.
  virtual std::unique_ptr<FleetTask> read_task(const QueuedTrial& trial, const MeasuredTarget& target,
                                               const FleetAccess& access, TrialFault& fault) = 0;
  // Opens it in task.measurer. Once `stop` is true it ends within a moment.
  virtual TaskStart begin_task(FleetTask& task, const std::function<bool()>& stop) = 0;
  // What others have stored of the task since the last time, where this role may read it.
  virtual DatabaseStatus read_new_records(FleetTask& task, Database& database) = 0;
  // The best kernel that the tuner of a trial knows, if this source can make it and does not know a better one.
  virtual DatabaseStatus take_incumbent(TrialQueue& queue, FleetTask& task, const IncumbentRecord& record) = 0;
  // What calibrates this machine for a target. Empty: its kernels are not there yet, or there is a problem with them;
  // the next lease() asks for them.
  virtual DatabaseResult<Calibrate> calibrate(TrialQueue& queue, Measurer& measurer, const Target& target,
                                              std::string& problem) = 0;
  // The kernel of a trial of the last lease. By one thread at a time, not always the caller's of the others.
  virtual BuiltFleetTrial build(const FleetTask& task, const LeasedTrial& trial) = 0;
};

// Compiles what it measures: the machine code of nobody else runs here.
std::shared_ptr<KernelSource> compile_here();

}  // namespace tw
