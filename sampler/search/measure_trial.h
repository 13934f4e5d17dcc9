// How a kernel is measured as a trial: the options of its measurement, and what is measured again. Used wherever trials
// are measured: by the tuner's own worker and by the machines of a fleet.
#pragma once
#include "backends/target.h"
#include "runtime/lists/task_list.h"
#include "runtime/measure/measurer.h"
#include "sampler/search/tune.h"

namespace tw {

// What is known of a task when one of its kernels is measured.
struct MeasuredTask {
  int worker_task = -1;
  double points = 0;  // of the unscheduled program, points_of()
  const Target& target;
  Timing timing = Timing::Warm;
  const Kernel* incumbent = nullptr;  // nullptr = none
  // > 0: what its record says that a call of it takes. The time of a trial is then its ratio times this, whatever the
  // incumbent takes on this machine, so that the trials of several machines are compared by their ratios.
  double incumbent_seconds = 0;
  double least_flops = 0;   // see least_flops.h
  double best_seconds = 0;  // of a call of the best kernel so far; infinite = there is none
};

// Runs, checks and times a kernel: again where others disturbed it or the worker was lost, and longer on devices where
// it may be the best. `is_baseline`: it is the untuned program. Adds to the counts and the parts of `profile`.
MeasureResult measure_trial(Measurer& measurer, const MeasuredTask& task, const Kernel& kernel, bool is_baseline,
                            TuneProfile& profile);

// Many decisions lead to the same instructions. They are known to take the same time; only that is stored, and no trial
// is spent. `other`: the record that has the same code.
void set_same_code(Record& record, i64 other);

}  // namespace tw
