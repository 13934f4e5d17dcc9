// Changes of a candidate as MetaSchedule makes them on processors: its mutators, with its probabilities.
#pragma once
#include "sampler/draw/mutator.h"

namespace tw {

// One mutator is drawn; where it finds nothing to change, this is a failed try, and no other one is asked: false. A
// trace for devices, or one that draws what MetaSchedule does not draw, is changed by mutate().
bool mutate_as_reference(const Trace& trace, const JointPrior& prior, std::vector<Decision>& decisions, Rng& rng);

}  // namespace tw
