// Trace files: everything that is needed to make a kernel again: workload, target, schedule, version.
//
//   tracewright 1 "0.1.0"
//   target "cpu -mcpu=znver3 -threads=1"
//   program dense(...) { ... }
//   schedule {
//     b = get_block("D")
//     ...
//   }
#pragma once
#include <optional>
#include <string>

#include "dsl/base/diagnostic.h"
#include "dsl/ir/program.h"
#include "dsl/schedule/trace.h"

namespace tw {

struct TraceFile {
  std::string version;   // of tracewright that wrote it
  std::string target;    // canonical text
  OwnedProgram program;  // unscheduled
  Trace trace;
};

std::string print_trace_file(const TraceFile& file);
std::optional<TraceFile> parse_trace_file(const Source& source, Diagnostics& diagnostics);

}  // namespace tw
