// Sketches that were not built with their space: one fork taken another way, or what a stored trace belongs to.
#pragma once
#include "sampler/search/candidate.h"

namespace tw {

// The number of the sketch that goes another way at one fork of `sketch`, and the same ways at all others that are there then; it is added
// to the space if it is new. -1: there is none, or no room for it.
int with_fork(CandidateSpace& space, int sketch, std::size_t fork, int taken);

// The number of the sketch that has this trace, whatever its decisions are; it is added to the space if it is new. -1: likewise.
int find_sketch(CandidateSpace& space, const Trace& trace);

// The candidate becomes one of another sketch, and keeps its decisions wherever both have the same sample in the same place; others are drawn as
// CandidateBuilder::draw() does. False: the sketch has no valid draw.
bool move_to_sketch(const CandidateSpace& space, Candidate& candidate, int sketch, Rng& rng);

}  // namespace tw
