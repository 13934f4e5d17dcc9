// What the draft model says of a program for processors, store by store, as text.
#pragma once
#include <string>

#include "costmodel/store_profile.h"

namespace tw {

// One paragraph for each store that the kernel runs, in program order: the name of its block, its body, its cycles.
// Then all together, as drafted and with `code_cycles` of the machine code (LlvmCompiler::cycles()).
std::string report_draft(const Program& program, const FeatureTarget& target, double code_cycles);

}  // namespace tw
