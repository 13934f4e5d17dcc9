// OtherCores: leaves the measuring core alone while the search runs beside it. Used by tune.cc. It does not pin anything to a core.
#pragma once
#include <sched.h>

namespace tw {

// Keeps this thread, and those that it starts, off the core on which the worker measures (the last one); gives it back in the end.
class OtherCores {
 public:
  explicit OtherCores(bool wanted) : active_(wanted && sched_getaffinity(0, sizeof before_, &before_) == 0) {
    if (!active_) return;
    cpu_set_t others = before_;
    for (int core = CPU_SETSIZE - 1; core >= 0; --core) {
      if (!CPU_ISSET(core, &others)) continue;
      CPU_CLR(core, &others);
      break;
    }
    if (CPU_COUNT(&others) > 0) sched_setaffinity(0, sizeof others, &others);
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
