#include "sampler/search/task_scheduler.h"

#include <algorithm>

namespace tw {

int next_task(const std::vector<TaskHistory>& tasks, double alpha, int window) {
  int chosen = -1;
  // Round robin until each has had one round.
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    bool fewer = tasks[i].alive && (chosen < 0 || tasks[i].best.size() < tasks[chosen].best.size());
    if (fewer) chosen = static_cast<int>(i);
  }
  if (chosen < 0 || tasks[chosen].best.empty()) return chosen;
  double highest = -1e300;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskHistory& task = tasks[i];
    if (!task.alive) continue;
    std::size_t n = task.best.size();
    double now = task.best[n - 1], gain = -1e9;
    if (now > 0) {
      std::size_t back = std::min<std::size_t>(window, n - 1);
      double before = back > 0 ? task.best[n - 1 - back] : now;
      double recent = back > 0 && before > 0 ? (before - now) / static_cast<double>(back) : 0;
      gain = task.weight * (alpha * recent + (1 - alpha) * now / static_cast<double>(n));
    }
    if (gain > highest) {
      highest = gain;
      chosen = static_cast<int>(i);
    }
  }
  return chosen;
}

}  // namespace tw
