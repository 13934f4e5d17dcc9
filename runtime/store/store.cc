#include "runtime/store/store.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tw {

namespace {

void add_trial(TaskSummary& task, const Record& record) {
  std::string name = machine_of(record.host);
  auto at = std::find_if(task.machines.begin(), task.machines.end(),
                         [&](const MachineSummary& known) { return known.machine == name; });
  if (at == task.machines.end()) at = task.machines.insert(at, {.machine = name});
  MachineSummary& machine = *at;
  ++machine.trials, ++task.trials;
  if (!record.ok()) {
    ++machine.failed, ++task.failed;
    return;
  }
  if (machine.first_good == 0) machine.first_good = record.id;
  machine.last_good = record.id;
  if (machine.best_seconds > 0 && machine.best_seconds <= record.seconds) return;
  machine.best_seconds = record.seconds;
  machine.best_record = record.id;
}

}  // namespace

DatabaseResult<std::vector<Record>> DatabaseStore::best(const std::string& workload, const std::string& target,
                                                        const std::string& machine, std::size_t n) {
  auto slower = [](const Record& a, const Record& b) {
    return std::pair(a.seconds, a.id) < std::pair(b.seconds, b.id);
  };
  std::vector<Record> heap;  // the slowest of the best in front
  DatabaseStatus done = visit({workload, target}, [&](Record& record) {
    if (!record.ok() || n == 0 || machine_of(record.host) != machine) return;
    if (heap.size() == n) {
      if (!slower(record, heap.front())) return;
      std::pop_heap(heap.begin(), heap.end(), slower);
      heap.pop_back();
    }
    heap.push_back(std::move(record));
    std::push_heap(heap.begin(), heap.end(), slower);
  });
  if (!done) return DatabaseError{done.error()};
  std::sort_heap(heap.begin(), heap.end(), slower);
  return heap;
}

DatabaseResult<std::vector<TaskSummary>> DatabaseStore::tasks() {
  std::vector<TaskSummary> summaries;
  std::map<std::pair<std::string, std::string>, std::size_t> place;
  DatabaseStatus done = visit({}, [&](const Record& record) {
    auto [at, is_new] = place.insert({{record.workload, record.target}, summaries.size()});
    if (is_new) summaries.push_back({record.workload, record.target, record.task});
    TaskSummary& summary = summaries[at->second];
    summary.task = record.task;
    if (record.is_trial()) add_trial(summary, record);
  });
  if (!done) return DatabaseError{done.error()};
  return summaries;
}

}  // namespace tw
