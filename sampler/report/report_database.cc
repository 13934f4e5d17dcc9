#include <algorithm>
#include <map>

#include "dsl/base/text.h"
#include "dsl/text/parse_program.h"
#include "sampler/report/report.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

template <class T>
void keep_evenly(std::vector<T>& values, std::size_t most) {
  std::size_t count = values.size();
  if (count <= most || most < 2) return;
  for (std::size_t i = 0; i < most; ++i) values[i] = values[i * (count - 1) / (most - 1)];
  values.resize(most);
}

std::optional<Target> target_of_text(const std::string& text) {
  Source source{"target", text};
  Diagnostics diagnostics(source);
  return parse_target(text, 0, diagnostics);
}

// The roof of a machine for a target.
DatabaseResult<Roof> roof_of(Database& database, const std::string& machine, const std::string& target_text) {
  Roof roof{.machine = machine, .target = target_text};
  std::optional<Target> target = target_of_text(target_text);
  if (!target) return roof.source = "unknown: this version cannot read the target", roof;
  if (is_device(*target)) return described_roof(*target, machine);
  std::string_view host = machine;  // whose kernels may have been timed with cold caches
  if (host.ends_with(kColdCaches)) host.remove_suffix(kColdCaches.size());
  auto stored = stored_roofs(database, machine_of(std::string(host)));
  if (!stored) return stored.failure();
  if (!*stored) return roof.source = "unknown: `tracewright tune` on that machine measures and stores it", roof;
  return processor_roof(**stored, *target, machine, "measured by `tracewright tune`");
}

void add_failure(TaskReport& task, const Record& record, const ReportLimits& limits) {
  ++task.failed;
  auto at = std::ranges::find(task.failures, record.status, &ReportFailure::status);
  if (at == task.failures.end())
    at = task.failures.insert(at, {record.status, 0, record.id, clean_text(record.error, limits.message_bytes)});
  ++at->count;
}

}  // namespace

void add_trial(TaskReport& task, const Record& record, const ReportLimits& limits) {
  if (!record.is_trial()) return;
  ++task.trials;
  if (!record.ok()) return add_failure(task, record, limits);
  ReportTrial trial{task.trials, record.id, record.seconds};
  if (task.trials == 1 && !record.trace.empty()) task.first = trial;
  if (record.trace.empty())
    task.untuned = record.seconds;
  else
    task.dots.push_back(trial);
  if (task.curve.empty() || trial.seconds < task.curve.back().seconds)
    task.curve.push_back(trial), task.best_cold = record.cold;
}

void end_trials(TaskReport& task, const ReportLimits& limits) {
  task.timed = std::ssize(task.dots);
  if (!task.curve.empty()) task.best = task.curve.back();
  task.is_curve_thinned = task.curve.size() > limits.curve;
  keep_evenly(task.curve, limits.curve);
  std::ranges::stable_sort(task.failures, std::greater(), &ReportFailure::count);
}

DatabaseStatus set_roof(Report& report, Database& database, TaskReport& task) {
  auto known = std::ranges::find_if(report.roofs, [&](const Roof& roof) {
    return roof.machine == task.machine && roof.target == task.target && roof.f32 > 0;
  });
  if (known == report.roofs.end()) {
    auto roof = roof_of(database, task.machine, task.target);
    if (!roof) return roof.failure();
    known = std::ranges::find_if(report.roofs, [&](const Roof& other) {
      return other.machine == task.machine && other.target == task.target && other.source == roof->source;
    });
    if (known == report.roofs.end()) known = report.roofs.insert(known, std::move(*roof));
  }
  task.roof = static_cast<int>(known - report.roofs.begin());
  std::optional<Target> target = target_of_text(task.target);
  int threads = target && !is_device(*target) ? target->threads : 1;
  if (task.has_work) task.bound = bound_of(task.work, *known, threads);
  return Done{};
}

void set_work(TaskReport& task, const std::string& text) {
  Source source{"workload", text};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> program = text.empty() ? std::nullopt : parse_program(source, diagnostics);
  if (program) task.has_work = true, task.work = work_of(program->program);
}

namespace {

DatabaseStatus add_task(Report& report, Database& database, const TaskSummary& summary) {
  auto workload = database.workload_text(summary.workload);
  if (!workload) return DatabaseError{workload.error()};
  TaskReport shared{.database = database.path(),
                    .name = clean_text(summary.task, report.limits.name_bytes),
                    .workload = summary.workload,
                    .target = clean_text(summary.target, report.limits.name_bytes)};
  set_work(shared, *workload);
  std::vector<TaskReport> tasks(summary.machines.size(), shared);
  std::vector<DecisionTable> decisions;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const MachineSummary& machine = summary.machines[i];
    tasks[i].machine = machine.machine;
    std::string schedule;
    if (machine.best_record > 0) {
      auto best = database.record(machine.best_record);
      if (best) schedule = best->trace;
    }
    decisions.emplace_back(schedule);
    tasks[i].best_schedule = clean_text(schedule, report.limits.trace_bytes);
  }
  auto visited = database.visit({.workload = summary.workload, .target = summary.target}, [&](const Record& record) {
    auto machine = std::ranges::find(tasks, machine_of(record.host), &TaskReport::machine);
    if (machine == tasks.end()) return;
    add_trial(*machine, record, report.limits);
    if (record.is_trial() && record.ok())
      decisions[static_cast<std::size_t>(machine - tasks.begin())].add(record.trace, record.seconds);
  });
  if (!visited) return visited;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    end_trials(tasks[i], report.limits);
    tasks[i].decided = decisions[i].trials();
    tasks[i].decisions = decisions[i].effects();
    if (auto status = set_roof(report, database, tasks[i]); !status) return status;
    tasks[i].machine = clean_text(tasks[i].machine, report.limits.name_bytes);
    report.tasks.push_back(std::move(tasks[i]));
  }
  return Done{};
}

}  // namespace

Report begin_report() { return {.version = TW_VERSION, .host = host_description(), .created = now_ms()}; }

DatabaseStatus add_database(Report& report, Database& database) {
  report.databases.push_back(database.path());
  auto summaries = database.tasks();
  if (!summaries) return DatabaseError{summaries.error()};
  for (const TaskSummary& summary : *summaries) {
    if (auto status = add_task(report, database, summary); !status) return status;
  }
  report.damaged += database.damaged();
  return Done{};
}

void thin_out(Report& report) {
  const ReportLimits& limits = report.limits;
  std::size_t share = limits.dots / std::max<std::size_t>(1, report.tasks.size());
  std::size_t most = std::clamp<std::size_t>(share, 20, limits.dots_of_a_task);
  for (TaskReport& task : report.tasks) keep_evenly(task.dots, most);
}

}  // namespace tw
