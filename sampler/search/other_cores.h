// OtherCores: leaves the measuring core alone while the search runs beside it. Used by tune.cc. It does not pin
// anything to a core.
#pragma once
#include <sched.h>

#include <algorithm>

#include "backends/topology.h"

namespace tw {

// The worker measures on the last CPU that the process may use. The search takes the others, without those of the same
// core, since two threads of a core slow each other down. If none is left, it takes the others of that core; if there
// are none either, all.
inline cpu_set_t cpus_of_search(const cpu_set_t& usable, const Topology& machine) {
  int last = CPU_SETSIZE - 1;
  while (last >= 0 && !CPU_ISSET(last, &usable)) --last;
  if (last < 0) return usable;
  cpu_set_t alone, core = with_siblings(machine, last);
  CPU_ZERO(&alone);
  CPU_SET(last, &alone);
  for (const cpu_set_t& left_out : {core, alone}) {
    cpu_set_t others = usable;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &left_out)) CPU_CLR(cpu, &others);
    }
    if (CPU_COUNT(&others) > 0) return others;
  }
  return usable;
}

// The number of CPUs that the search takes.
inline int count_cpus_of_search() {
  cpu_set_t others = cpus_of_search(cpus_of_thread(), topology());
  return std::max(1, CPU_COUNT(&others));
}

// While it lives, this thread and those that it starts run on the CPUs of the search.
class OtherCores {
 public:
  explicit OtherCores(bool wanted) : before_(cpus_of_thread()), active_(wanted && CPU_COUNT(&before_) > 0) {
    if (!active_) return;
    cpu_set_t others = cpus_of_search(before_, topology());
    sched_setaffinity(0, sizeof others, &others);
  }
  ~OtherCores() {
    if (active_) sched_setaffinity(0, sizeof before_, &before_);
  }
  OtherCores(const OtherCores&) = delete;

 private:
  cpu_set_t before_;
  bool active_;
};

}  // namespace tw
