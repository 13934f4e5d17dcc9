// FleetTask: a workload that is open in a worker of a measuring machine, with what is known of its trials. What a
// TaskState is to a tuner, but for the search. Used by measuring_machine.h.
#pragma once
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/fleet/trial_queue.h"
#include "runtime/measure/measurer.h"
#include "runtime/store/database.h"
#include "sampler/search/measure_trial.h"
#include "sampler/search/task_reference.h"
#include "sampler/search/trial.h"

namespace tw {

struct FleetTask {
  std::string workload, target_text;
  bool is_cold = false;
  u64 seed = 0;
  OwnedProgram program;                    // unscheduled; none where a builder compiles
  std::optional<TaskReference> reference;  // of a builder, until the task is open
  Target target;
  std::string host, machine;  // what times are taken on, Record::host and machine_of it
  Measurer* measurer = nullptr;
  int worker_task = -1;
  double bytes = 0, least_flops = 0, points = 0;
  Kernel incumbent;  // best kernel so far, which is not the untuned program; empty code = none
  // As its record has them: trials of all machines of the class are measured by ratios to it.
  double incumbent_seconds = std::numeric_limits<double>::infinity();
  double best = std::numeric_limits<double>::infinity();  // seconds of the best trial so far
  i64 last_record = 0;                                    // the latest record of the database that was read
  i64 last_own = 0;                                       // the latest one that this machine wrote
  std::map<Hash128, i64> programs, objects;               // that were measured on such a machine, and the record of it
  bool may_read = true;                                   // the records: this role may

  bool is_of(const QueuedTrial& trial) const {
    return workload == trial.workload && target_text == trial.target && is_cold == trial.is_cold && seed == trial.seed;
  }
  // Kernels with several threads take the cores that compiling needs.
  bool needs_all_cores() const { return target.threads > 1 || target.kind == TargetKind::OpenCl; }
};

// Why a trial cannot be measured here: a fault of the queue.
struct TrialFault {
  std::string_view kind;  // "" = none
  std::string message;
};

// Trials of one task (FleetTask::is_of), from the first one on.
std::span<const LeasedTrial> first_group(std::span<const LeasedTrial> trials);

// A trial's task with its program and target, which are read and checked, and what follows from these. Null, and the
// fault; without a kind where the database cannot be asked.
std::unique_ptr<FleetTask> read_program(const QueuedTrial& trial, Database& database, TrialFault& fault);
// The same for this machine, before the task is open in a worker.
std::unique_ptr<FleetTask> read_task(const QueuedTrial& trial, const MeasuredTarget& target, Database& database,
                                     TrialFault& fault);

// Reads what others have stored of the task since the last time, where this role may. `on_good` is called for those
// with a time.
DatabaseStatus note_new_records(FleetTask& task, Database& database, const std::function<void(const Record&)>& on_good);
// The same; a better kernel than the incumbent becomes the incumbent.
DatabaseStatus read_new_records(FleetTask& task, Database& database);

// Is the best kernel that a tuner knows faster than the one that is known here, and of a machine of this class?
bool is_better_incumbent(const FleetTask& task, const IncumbentRecord& record);
void set_incumbent(FleetTask& task, const IncumbentRecord& record, Kernel kernel);
// Takes the best kernel that a tuner knows as the incumbent, if it is better. So a machine whose role reads no records
// times its candidates in turn with the best of all, too. An incumbent whose trace cannot be replayed is left out.
void take_incumbent(FleetTask& task, const IncumbentRecord& record);

// A trial that was replayed, and compiled unless there is a fault.
struct BuiltFleetTrial {
  TrialFault fault;
  BuiltKernel built;
  Hash128 object = {};
};
// Replays the trace, checks that it gives the program that the tuner expects, and compiles it.
BuiltFleetTrial build_fleet_trial(const FleetTask& task, const QueuedTrial& trial, LlvmCompiler& compiler);

}  // namespace tw
