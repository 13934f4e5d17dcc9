#include "cli/library_name.h"

#include <algorithm>
#include <filesystem>

#include "dsl/base/text.h"

namespace tw::cli {
namespace {

// NAME.h beside a user's files is found in place of C's own header, libm.so in place of C's own library, and
// pthread_create is another function.
constexpr const char* kTaken[] = {
    "assert",    "c",        "complex", "ctype",  "dl",        "dlfcn",  "errno",       "fcntl",    "fenv",
    "float",     "inttypes", "iso646",  "limits", "locale",    "m",      "malloc",      "math",     "memory",
    "poll",      "pthread",  "rt",      "sched",  "semaphore", "setjmp", "signal",      "stdalign", "stdarg",
    "stdatomic", "stdbool",  "stddef",  "stdint", "stdio",     "stdlib", "stdnoreturn", "string",   "strings",
    "tgmath",    "threads",  "time",    "uchar",  "unistd",    "wchar",  "wctype"};

}  // namespace

std::string library_name_of(const std::string& path) {
  std::string name = c_identifier(std::filesystem::path(path).stem().string());
  // tw_thread_pool.h and the like lie beside the library, and tw_pool_run is called with it.
  bool is_taken = name.starts_with("tw_") || std::ranges::find(kTaken, name) != std::end(kTaken);
  return is_taken ? "k" + name : name;
}

}  // namespace tw::cli
