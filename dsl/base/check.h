// TW_CHECK: an invariant of tracewright itself. A failure is a bug: print and abort, never recover.
#pragma once

namespace tw {

// Prints the failed condition with its place and a note, runs the crash hook (which writes a replayable file), and
// aborts.
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const char* note);

// Called by check_failed before it aborts; the search sets it to write the trace at hand. Thread-local.
using CrashHook = void (*)(void* context);
void set_crash_hook(CrashHook hook, void* context);

}  // namespace tw

#define TW_CHECK(condition, ...) \
  ((condition) ? (void)0 : ::tw::check_failed(#condition, __FILE__, __LINE__, "" __VA_ARGS__))
