#include "sampler/search/task_scheduler.h"

#include <algorithm>

namespace tw {

int next_task(const std::vector<TaskHistory>& tasks, double alpha, int window) {
  bool all_in_flight =
      std::none_of(tasks.begin(), tasks.end(), [](const TaskHistory& task) { return task.alive && !task.in_flight; });
  auto may_go_on = [&](const TaskHistory& task) { return task.alive && (all_in_flight || !task.in_flight); };
  auto rounds = [](const TaskHistory& task) { return task.best.size() + task.in_flight; };
  int chosen = -1;
  // Round robin until each has had one round.
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    bool fewer = may_go_on(tasks[i]) && (chosen < 0 || rounds(tasks[i]) < rounds(tasks[chosen]));
    if (fewer) chosen = static_cast<int>(i);
  }
  if (chosen < 0 || tasks[chosen].best.empty()) return chosen;
  double highest = -1e300;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskHistory& task = tasks[i];
    std::size_t n = task.best.size();
    if (!may_go_on(task) || n == 0) continue;  // all that it has is in flight
    double now = task.best[n - 1], gain = -1e9;
    if (now > 0) {
      std::size_t back = std::min<std::size_t>(window, n - 1);
      double before = back > 0 ? task.best[n - 1 - back] : now;
      double recent = back > 0 && before > 0 ? (before - now) / static_cast<double>(back) : 0;
      gain = task.weight * (alpha * recent + (1 - alpha) * now / static_cast<double>(rounds(task)));
    }
    if (gain > highest) {
      highest = gain;
      chosen = static_cast<int>(i);
    }
  }
  return chosen;
}

}  // namespace tw
