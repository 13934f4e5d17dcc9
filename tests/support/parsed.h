// Programs, workloads, schedules, trace files and targets in text. What cannot be read is a failure of the test, and
// empty.
#pragma once
#include <string>

#include "backends/target.h"
#include "dsl/ir/program.h"
#include "dsl/schedule/trace.h"
#include "dsl/text/workload.h"
#include "runtime/store/trace_file.h"

namespace tw::test {

OwnedProgram parsed(const std::string& text);
// A workload of a module of text, with these arguments.
OwnedProgram workload(const std::string& text, const std::string& name, const WorkloadArguments& arguments);
Trace parsed_schedule(const std::string& text);
TraceFile parsed_trace_file(const std::string& text);
Target parsed_target(const std::string& text);

}  // namespace tw::test
