// Which task gets the next round of trials: first each one in turn, then the one whose improvement promises most for
// the weighted total (the gradient scheduler of Ansor and MetaSchedule).
#pragma once
#include <vector>

namespace tw {

struct TaskHistory {
  double weight = 1;
  bool alive = true;
  int in_flight = 0;         // batches of it that are being measured
  std::vector<double> best;  // best seconds after each round so far; 0 = none yet
};

// Index of the task to go on with, or -1 if none is alive. One whose last batch is not back yet only if no other is
// alive: what it would be searched with is less. alpha weighs recent improvement against the average so far, over a
// window of `window` rounds.
int next_task(const std::vector<TaskHistory>& tasks, double alpha = 0.2, int window = 3);

}  // namespace tw
