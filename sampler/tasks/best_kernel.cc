#include "sampler/tasks/best_kernel.h"

#include <map>

#include "dsl/base/text.h"
#include "sampler/search/trial.h"
#include "sampler/tasks/load_list.h"
#include "sampler/tasks/rebuild.h"

namespace tw {

const std::string& own_machine(const std::string& target, Timing timing) {
  static std::map<std::pair<std::string, Timing>, std::string> known;
  auto [at, is_new] = known.try_emplace({target, timing});
  Source source{"target", target};
  Diagnostics diagnostics(source);
  std::optional<Target> parsed = is_new ? parse_target(target, 0, diagnostics) : std::nullopt;
  if (parsed) at->second = machine_of(measuring_host(*parsed, worker_options(*parsed).device, timing));
  return at->second;
}

DatabaseResult<Record> stored_record(Database& database, const TaskSummary& task, std::string& message, Timing timing,
                                     WhichRecord which) {
  const std::string& own = own_machine(task.target, timing);
  const MachineSummary* machine = task.chosen(own);
  if (!machine) return Record{};
  // A kernel of this machine that was timed in the other way is better than one of another machine.
  const std::string& also = own_machine(task.target, timing == Timing::Warm ? Timing::Cold : Timing::Warm);
  if (machine->machine != own) machine = task.chosen(also);
  if (machine->machine == also)
    message = cat(task.task, ": measured with ", timing == Timing::Warm ? "cold" : "warm", " caches only");
  else if (machine->machine != own)
    message = cat(task.task, ": measured on another machine (", machine->machine,
                  "); `tracewright tune` measures it on this one");
  return database.record(which == WhichRecord::FirstMeasured ? machine->first_good : machine->best_record);
}

DatabaseResult<Record> stored_record(Database& database, const std::string& workload, const std::string& target,
                                     std::string& message, Timing timing, WhichRecord which) {
  DatabaseResult<std::vector<TaskSummary>> tasks = database.tasks();
  if (!tasks) return DatabaseError{tasks.error()};
  for (const TaskSummary& task : *tasks) {
    if (task.workload == workload && task.target == target)
      return stored_record(database, task, message, timing, which);
  }
  return Record{};
}

std::optional<StoredKernel> stored_kernel(Database& database, const TuneTask& task, std::string_view symbol,
                                          std::string& message, WhichRecord which, const OwnedProgram* placed) {
  TaskKey key = key_of(task);
  DatabaseResult<Record> best = stored_record(database, key.workload, key.target, message, task.timing, which);
  if (!best) return message = best.error(), std::nullopt;
  if (!best->id)
    return message = cat(task.name, ": no kernel in ", database.path(), "; `tracewright tune` finds some"),
           std::nullopt;
  std::string error;
  std::optional<TraceFile> file = trace_file_of(database, *best, error);
  if (!file) return message = cat("record ", best->id, " cannot be read:\n", error), std::nullopt;
  std::optional<Rebuilt> rebuilt = rebuild(placed ? *placed : task.program, file->trace, task.target, error);
  std::optional<Kernel> kernel = rebuilt ? compile(*rebuilt, task.target, symbol, error) : std::nullopt;
  if (!kernel) return message = cat(task.name, ": ", error), std::nullopt;
  return StoredKernel{std::move(*best), std::move(*file), std::move(*kernel)};
}

}  // namespace tw
