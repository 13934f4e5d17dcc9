#include "sampler/fleet/built_source.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "runtime/measure/machine_memory.h"
#include "sampler/fleet/machine_targets.h"

namespace tw {
namespace {

std::optional<Target> target_of(const std::string& text) {
  Source source{"target", text};
  Diagnostics diagnostics(source);
  return parse_target(text, 0, diagnostics);
}

}  // namespace

WantedBuild BuiltSource::wanted(const BuildPurpose& purpose) const {
  std::optional<Target> target = target_of(purpose.target);
  std::string processor = target && is_device(*target) ? to_string(processor_for_others()) : purpose.target;
  return {purpose.text(), BuildKind{TW_VERSION, processor, key_.name()}.text(), processor};
}

// Tells the database what this machine wants, if that has changed.
DatabaseStatus BuiltSource::want(BuildQueue& builds, i64 machine) {
  std::vector<WantedBuild> all;
  for (const std::string& target : targets_) all.push_back(wanted({.target = target}));
  for (const BuildPurpose& purpose : missing_) all.push_back(wanted(purpose));
  if (told_by_ == machine && told_ == all) return Done{};
  if (auto told = builds.want(machine, all); !told) return told;
  told_by_ = machine, told_ = std::move(all);
  return Done{};
}

DatabaseResult<std::vector<LeasedTrial>> BuiltSource::lease(TrialQueue& queue, i64 machine,
                                                            const std::vector<MeasuredTarget>& targets, int most) {
  BuildQueue builds(queue);
  builds_.clear();
  targets_.clear();
  std::vector<std::string> kinds;
  std::vector<WantedBuild> of_trials;
  for (const MeasuredTarget& target : targets) {
    targets_.push_back(target.target);
    of_trials.push_back(wanted({.target = target.target}));
    kinds.push_back(of_trials.back().kind);
  }
  std::erase_if(missing_, [&](const BuildPurpose& purpose) {
    return purpose.sort == BuildPurpose::Sort::Record && std::ranges::count(targets_, purpose.target) == 0;
  });
  if (auto told = want(builds, machine); !told) return told.failure();
  auto with_builder = builds.with_builder(of_trials);
  if (!with_builder) return with_builder.failure();
  std::vector<MeasuredTarget> offered;
  for (const MeasuredTarget& target : targets) {
    if (std::ranges::count(*with_builder, target.target) > 0) offered.push_back(target);
  }
  if (offered.empty()) return std::vector<LeasedTrial>();
  if (auto told = queue.offer(offered); !told) return told.failure();
  auto leased = queue.lease(machine, targets, most, kinds);
  if (!leased) return leased;
  for (const LeasedTrial& trial : *leased) {
    auto build = builds.build_of(trial.id, kind_for(trial.trial.target));
    if (!build) return build.failure();
    builds_.emplace_back(trial, std::move(*build));
  }
  return leased;
}

std::unique_ptr<FleetTask> BuiltSource::read_task(const QueuedTrial& trial, const MeasuredTarget& target,
                                                  const FleetAccess& access, TrialFault& fault) {
  const std::string kind = kind_for(trial.target);
  auto bytes = access.queue.call<SignedBytes>(
      access.waiting, [&](TrialQueue& queue) { return BuildQueue(queue).task_of(trial, kind); });
  if (!bytes) return nullptr;
  // Where there is no reference, the builder has written why into the trials.
  for (const auto& [leased, build] : builds_) {
    if (!bytes->empty() || leased.trial.workload != trial.workload || leased.trial.target != trial.target) continue;
    fault = read_build(build, key_, kind, leased.id, leased.trial).fault;
    if (!fault.kind.empty()) return nullptr;
  }
  std::optional<TaskReference> reference = read_reference(*bytes, key_, kind, trial, fault);
  if (!reference) return nullptr;
  if (reference->bytes > static_cast<double>(free_memory_bytes())) {
    fault = {fault::kRefused, cat("takes ", reference->bytes * 1e-9, " GB of memory to be measured, but ",
                                  static_cast<double>(free_memory_bytes()) * 1e-9, " GB are free")};
    return nullptr;
  }
  auto task = std::make_unique<FleetTask>();
  task->workload = trial.workload, task->target_text = trial.target;
  task->is_cold = trial.is_cold, task->seed = trial.seed;
  task->host = trial.is_cold ? cat(target.host, kColdCaches) : target.host;
  task->machine = machine_of(task->host);
  task->bytes = reference->bytes, task->least_flops = reference->least_flops, task->points = reference->points;
  task->target = target_of(trial.target).value_or(Target());
  task->reference = std::move(reference);
  return task;
}

TaskStart BuiltSource::begin_task(FleetTask& task, const std::function<bool()>& stop) {
  (void)stop;  // the measurer asks for itself, see Measurer::stop_when
  TaskStart start = begin_referenced_task(*task.measurer, *task.reference);
  if (start.task < 0) return start;
  task.reference.reset();  // the measurer has it
  return start;
}

DatabaseResult<Calibrate> BuiltSource::calibrate(TrialQueue& queue, Measurer& measurer, const Target& target,
                                                 std::string& problem) {
  const BuildPurpose purpose{BuildPurpose::Sort::Calibration, to_string(target)};
  const std::string kind = kind_for(purpose.target);
  auto bytes = BuildQueue(queue).task_of(purpose.task(), kind);
  if (!bytes) return bytes.failure();
  CalibrationKernels kernels;
  if (!bytes->empty()) kernels = read_calibration(*bytes, key_, kind, purpose.target);
  problem = kernels.problem;
  std::erase(missing_, purpose);
  if (kernels.kernels.empty()) return missing_.push_back(purpose), Calibrate();
  return calibration_with(measurer, target, [kernels](const std::function<bool()>&) { return kernels; });
}

DatabaseStatus BuiltSource::take_incumbent(TrialQueue& queue, FleetTask& task, const IncumbentRecord& record) {
  const BuildPurpose purpose{BuildPurpose::Sort::Record, task.target_text, record.id};
  // Older ones are of another task, which asks again, or of this one, which has a better one by now.
  std::erase_if(missing_, [&](const BuildPurpose& other) {
    return other.sort == purpose.sort && other.target == purpose.target && other.record <= purpose.record;
  });
  if (!is_better_incumbent(task, record)) return Done{};
  const std::string kind = kind_for(task.target_text);
  BuildQueue builds(queue);
  auto bytes = builds.task_of(purpose.task(), kind);
  if (!bytes) return bytes.failure();
  if (bytes->empty()) return missing_.push_back(purpose), want(builds, told_by_);
  QueuedTrial trial{
      .workload = task.workload, .target = task.target_text, .program = record.program, .trace = record.trace};
  BuiltFleetTrial made = read_built_record(*bytes, key_, kind, record.id, trial);
  if (made.built.kernel) set_incumbent(task, record, std::move(*made.built.kernel));
  return Done{};
}

DatabaseStatus BuiltSource::read_new_records(FleetTask& task, Database& database) {
  return note_new_records(task, database, [](const Record&) {});
}

BuiltFleetTrial BuiltSource::build(const FleetTask& task, const LeasedTrial& trial) {
  const std::string kind = kind_for(task.target_text);
  auto is_of = [&](const auto& build) { return build.first.id == trial.id && build.first.lease == trial.lease; };
  auto found = std::ranges::find_if(builds_, is_of);
  return read_build(found == builds_.end() ? SignedBytes() : found->second, key_, kind, trial.id, trial.trial);
}

}  // namespace tw
