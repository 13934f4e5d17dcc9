// Which build of tracewright this is: two builds of one version may make different machine code of the same program.
// Used by `version` and by `replay --hash`.
#pragma once
#include <string>

namespace tw::cli {

// The first 16 digits of the build id that the linker put into libtracewright; "unknown" if it put none there.
std::string build_id();
// "tracewright 0.1.0 (build 0123456789abcdef, LLVM 19.1.7)".
std::string build_name();

}  // namespace tw::cli
