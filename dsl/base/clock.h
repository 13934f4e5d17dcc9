// seconds_now: a clock that only goes forward, for how long something takes.
#pragma once
#include <chrono>

namespace tw {

// Seconds since a moment that is the same for all calls of a process.
inline double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace tw
