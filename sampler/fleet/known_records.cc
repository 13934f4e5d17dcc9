#include <algorithm>

#include "sampler/fleet/fleet_task.h"

namespace tw {

DatabaseStatus note_new_records(FleetTask& task, Database& database,
                                const std::function<void(const Record&)>& on_good) {
  auto note = [&](Record& record) {
    task.last_record = std::max(task.last_record, record.id);
    std::optional<Hash128> program = parse_hash(record.program), object = parse_hash(record.object);
    if (!program || machine_of(record.host) != task.machine) return;
    task.programs.emplace(*program, record.id);
    if (object && record.is_trial() && record.status != name_of(MeasureStatus::WorkerLost))
      task.objects.emplace(*object, record.id);
    if (!record.ok()) return;
    task.best = std::min(task.best, record.seconds);
    on_good(record);
  };
  DatabaseStatus read = database.visit({task.workload, task.target_text, task.last_record}, note);
  constexpr const char* kNoRight = "42501";  // SQLSTATE
  task.may_read = read || read.failure().state != kNoRight;
  if (!task.may_read) return Done{};
  return read;
}

}  // namespace tw
