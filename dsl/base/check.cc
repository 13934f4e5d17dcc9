#include "dsl/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tw {
namespace {
thread_local CrashHook crash_hook = nullptr;
thread_local void* crash_context = nullptr;
}  // namespace

void set_crash_hook(CrashHook hook, void* context) {
  crash_hook = hook;
  crash_context = context;
}

void check_failed(const char* condition, const char* file, int line, const char* note) {
  std::fprintf(stderr, "tracewright: bug: %s:%d: check failed: %s %s\n", file, line, condition, note);
  if (CrashHook hook = crash_hook) {
    crash_hook = nullptr;  // a hook that fails must not run again
    hook(crash_context);
  }
  std::abort();
}

}  // namespace tw
