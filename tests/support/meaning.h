// Do two programs mean the same? Asked of the interpreter, on inputs that are small integers, so that sums are exact in
// any order.
#pragma once
#include <string>

#include "dsl/ir/program.h"
#include "dsl/passes/lower.h"

namespace tw::test {

// "" if `after` is legal IR and computes the same bits as `before`, else what is wrong.
std::string difference(const Program& before, const Program& after, u64 seed);
// The same for a lowered program.
std::string difference(const Program& before, const LoweredProgram& after, u64 seed);

}  // namespace tw::test
