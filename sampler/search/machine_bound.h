// MachineBound: the least time that any kernel of a task can take on this machine, from what the machine was measured
// to do: FMAs, and reading all inputs and writing all outputs once. The search ends a task whose best kernel reaches
// it.
#pragma once
#include <sched.h>

#include <map>

#include "sampler/search/tune.h"

namespace tw {

// Bytes that no program for a workload can leave untouched: all of its outputs, and those inputs of which every element
// is read, whatever else is.
struct LeastBytes {
  double read = 0, written = 0;
};
LeastBytes least_bytes(const Program& program);

class MachineBound {
 public:
  MachineBound();
  // Of a processor that this machine is; nothing is known of others and of devices. Measures for some hundredths of a
  // second on the core on which kernels are timed: nothing else may be measured meanwhile. A busy machine looks slower
  // than it is, so the highest of all peaks so far counts.
  Bound of(const TuneTask& task);

 private:
  cpu_set_t core_;              // the last one this process may use, as the worker's
  std::map<int, double> peak_;  // by bits of a vector: f32 operations a second
};

}  // namespace tw
