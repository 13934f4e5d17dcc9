// What the draft model says of a program for processors, store by store, as text.
#pragma once
#include <string>

#include "costmodel/store_profile.h"

namespace tw {

// One paragraph for each store that the kernel runs, in program order: the name of its block, its body, its cycles.
std::string report_draft(const Program& program, const FeatureTarget& target);

}  // namespace tw
