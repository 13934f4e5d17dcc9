#include "sampler/fleet/fleet_task.h"

#include <algorithm>

#include "dsl/analysis/points.h"
#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/schedule/state.h"
#include "dsl/text/parse_program.h"
#include "runtime/measure/machine_memory.h"
#include "sampler/search/least_flops.h"
#include "sampler/search/task_memory.h"

namespace tw {
namespace {

constexpr std::size_t kLongestWorkload = std::size_t{4} << 20;  // bytes

// What a program lives on.
struct Replay {
  Arena arena{1 << 18};
  std::optional<Trace> trace;
};

// The program that a trace makes of a workload, or why there is none.
std::optional<Program> replayed(Replay& on, const FleetTask& task, const std::string& text, std::string& problem) {
  if (text.empty()) return task.program.program;
  Source source{"trace", text};
  Diagnostics diagnostics(source);
  on.trace = parse_schedule(source, diagnostics);
  if (!on.trace) return problem = cat("the trace cannot be read: ", diagnostics.render()), std::nullopt;
  State state(on.arena, task.program.program);
  if (Status done = replay(*on.trace, state, ReplayMode::Strict); !done)
    return problem = cat("the trace cannot be replayed: ", to_string(done.rejected())), std::nullopt;
  return state.program();
}

// The kernel of a record's trace; nullopt: it cannot be had, or the trace gives another program than the one with this
// hash ("" = any).
std::optional<Kernel> kernel_of(const FleetTask& task, const std::string& trace, const std::string& hash) {
  Replay on;
  std::string problem;
  std::optional<Program> program = replayed(on, task, trace, problem);
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(task.target));
  if (!program || !compiler || (!hash.empty() && to_hex(normalized_hash(*program)) != hash)) return std::nullopt;
  return loadable(build_kernel(*program, task.target, *compiler), task.target).kernel;
}

}  // namespace

std::unique_ptr<FleetTask> read_program(const QueuedTrial& trial, Database& database, TrialFault& fault) {
  auto refused = [&](std::string message) {
    fault = {fault::kRefused, std::move(message)};
    return nullptr;
  };
  DatabaseResult<std::string> text = database.workload_text(trial.workload);
  if (!text) return fault = {"", text.error()}, nullptr;
  if (text->empty()) return refused("the database has no such workload, or it is damaged");
  if (text->size() > kLongestWorkload) return refused(cat("a workload of ", text->size(), " bytes is too long"));
  Source source{"workload", *text}, target_source{"target", trial.target};
  Diagnostics diagnostics(source), target_diagnostics(target_source);
  std::optional<OwnedProgram> program = parse_program(source, diagnostics);
  std::optional<Target> parsed = parse_target(trial.target, 0, target_diagnostics);
  if (!program || !parsed) return refused(cat(diagnostics.render(), target_diagnostics.render()));
  if (to_hex(structural_hash(program->program)) != trial.workload)
    return refused("the text of the workload is not the one that its hash names");
  auto task = std::make_unique<FleetTask>();
  task->workload = trial.workload, task->target_text = trial.target;
  task->is_cold = trial.is_cold, task->seed = trial.seed;
  task->bytes = memory_of(program->program, *parsed).host;
  task->least_flops = least_flops(program->program);
  task->points = points_of(program->program);
  task->program = std::move(*program), task->target = std::move(*parsed);
  return task;
}

std::unique_ptr<FleetTask> read_task(const QueuedTrial& trial, const MeasuredTarget& target, Database& database,
                                     TrialFault& fault) {
  std::unique_ptr<FleetTask> task = read_program(trial, database, fault);
  if (!task) return nullptr;
  if (std::string why = why_too_large(task->program.program, task->target, 0); !why.empty())
    return fault = {fault::kRefused, why}, nullptr;
  task->host = trial.is_cold ? cat(target.host, kColdCaches) : target.host;
  task->machine = machine_of(task->host);
  return task;
}

DatabaseStatus read_new_records(FleetTask& task, Database& database) {
  if (!task.may_read) return Done{};
  std::string better;
  double better_seconds = task.incumbent_seconds;
  DatabaseStatus read = note_new_records(task, database, [&](const Record& record) {
    if (record.trace.empty() || record.seconds >= better_seconds) return;
    better_seconds = record.seconds;
    better = record.trace;
  });
  if (!read || better.empty()) return read;
  if (std::optional<Kernel> kernel = kernel_of(task, better, "")) {
    task.incumbent = std::move(*kernel);
    task.incumbent_seconds = better_seconds;
  }
  return read;
}

bool is_better_incumbent(const FleetTask& task, const IncumbentRecord& record) {
  return !record.trace.empty() && record.seconds > 0 && record.seconds < task.incumbent_seconds &&
         machine_of(record.host) == task.machine;
}

void set_incumbent(FleetTask& task, const IncumbentRecord& record, Kernel kernel) {
  task.incumbent = std::move(kernel);
  task.incumbent_seconds = record.seconds;
  task.best = std::min(task.best, record.seconds);
}

void take_incumbent(FleetTask& task, const IncumbentRecord& record) {
  bool is_known = record.id <= task.last_record || record.id == task.last_own;
  if (is_known || !is_better_incumbent(task, record)) return;
  if (std::optional<Kernel> kernel = kernel_of(task, record.trace, record.program))
    set_incumbent(task, record, std::move(*kernel));
}

BuiltFleetTrial build_fleet_trial(const FleetTask& task, const QueuedTrial& trial, LlvmCompiler& compiler) {
  BuiltFleetTrial made;
  if (trial.trace.size() > kLongestTrace) {
    made.fault = {fault::kRefused, cat("a trace of ", trial.trace.size(), " bytes is too long")};
    return made;
  }
  Replay on;
  std::string problem;
  std::optional<Program> program = replayed(on, task, trial.trace, problem);
  if (!program) {
    made.fault = {fault::kProgramDiffers, problem};
    return made;
  }
  if (std::string hash = to_hex(normalized_hash(*program)); hash != trial.program) {
    made.fault = {fault::kProgramDiffers,
                  cat("tracewright ", TW_VERSION, " makes the program ", hash, " here, the tuner ", trial.program)};
    return made;
  }
  made.built = build_kernel(*program, task.target, compiler);
  if (made.built.kernel) made.object = object_hash(*made.built.kernel);
  made.built = loadable(std::move(made.built), task.target);
  return made;
}

std::span<const LeasedTrial> first_group(std::span<const LeasedTrial> trials) {
  const QueuedTrial& first = trials[0].trial;
  auto is_other = [&](const LeasedTrial& leased) {
    const QueuedTrial& trial = leased.trial;
    return trial.workload != first.workload || trial.target != first.target || trial.is_cold != first.is_cold ||
           trial.seed != first.seed;
  };
  return {trials.begin(), std::ranges::find_if(trials, is_other)};
}

}  // namespace tw
