// Programs in text.
#pragma once
#include <string>

#include "dsl/ir/program.h"

namespace tw::test {

// One that cannot be read is a failure of the test, and empty.
OwnedProgram parsed(const std::string& text);

}  // namespace tw::test
