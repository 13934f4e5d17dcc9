// Changes of a candidate as MetaSchedule makes them on processors: its mutators, with its probabilities.
#pragma once
#include "sampler/draw/mutator.h"

namespace tw {

// Does the trace draw what MetaSchedule draws for a processor: tiles, places, and values of annotations, not the last
// alone?
bool draws_as_reference(const Trace& trace);

// One mutator is drawn; where it finds nothing to change, this is a failed try, and no other one is asked: false. A
// trace that does not draw as the reference is changed by mutate().
bool mutate_as_reference(const Trace& trace, const JointPrior& prior, std::vector<Decision>& decisions, Rng& rng);

}  // namespace tw
