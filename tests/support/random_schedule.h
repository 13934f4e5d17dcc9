// Random instructions for property tests, drawn from every registered primitive by the types of its parameters: a new
// primitive takes part at once.
#pragma once
#include <map>
#include <string>

#include "dsl/schedule/schedule.h"

namespace tw::test {

struct Tried {
  int accepted = 0, rejected = 0;
  std::map<std::string, int> reasons;
};
using Acceptance = std::map<std::string, Tried>;  // by name of the primitive

// Instructions that change the program, and all others: samples, queries and the mark of postprocessing.
std::vector<const InstructionKind*> changing_kinds();
std::vector<const InstructionKind*> other_kinds();

// One random application of the kind; queries for its handles are recorded as well, and after a sample an instruction
// that takes what was drawn (a split, a reordering, a move). Was it accepted?
bool apply_random(Schedule& schedule, const InstructionKind& kind, Rng& rng, Acceptance& acceptance);

}  // namespace tw::test
