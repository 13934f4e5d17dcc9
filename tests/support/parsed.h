// Programs and schedules in text. What cannot be read is a failure of the test, and empty.
#pragma once
#include <string>

#include "dsl/ir/program.h"
#include "dsl/schedule/trace.h"

namespace tw::test {

OwnedProgram parsed(const std::string& text);
Trace parsed_schedule(const std::string& text);

}  // namespace tw::test
