// seconds_now: a clock that only goes forward, for how long something takes. processor_seconds: what other work on the
// machine disturbs less.
#pragma once
#include <time.h>

#include <chrono>

namespace tw {

// Seconds since a moment that is the same for all calls of a process.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Processor time of all threads of this process since it began.
inline double processor_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace tw
