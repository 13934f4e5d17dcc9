// The support of a sample: all decisions that it may have where it stands. For who enumerates a space instead of
// drawing from it.
#pragma once
#include <optional>
#include <vector>

#include "dsl/schedule/state.h"
#include "dsl/schedule/trace.h"

namespace tw {

// In a fixed order; none where the instruction is rejected whatever it decides. `state`: what the instructions before
// the sample gave; it stays as it is. Nothing if there are more than `most`, or the kind of sample is not known. Takes
// time in proportion to their number.
std::optional<std::vector<Decision>> support_of(const Instruction& sample, State& state, std::size_t most);

}  // namespace tw
