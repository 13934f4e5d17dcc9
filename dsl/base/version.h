// The version of tracewright: in --version, trace files and records. CMake reads it from here.
#pragma once

namespace tw {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace tw
