// Builds sketches that were not built with their space: those with one fork taken another way, and those of stored
// traces.
#pragma once
#include <functional>

#include "sampler/space/candidate.h"

namespace tw {

// The sketch that takes alternative `taken` at one fork of `sketch` and the same alternatives at all other forks that
// it still has. A new one is added to the space. Returns its number, or -1 if there is no such sketch or no room for
// it.
int with_fork(CandidateSpace& space, int sketch, std::size_t fork, int taken);

// The sketch of a trace, whatever the trace's decisions are; returns as with_fork() does.
int find_sketch(CandidateSpace& space, const Trace& trace);

// The sketch for a trace of another program, which may be the same operator with other extents or behind it another
// epilogue: one with the same instructions, in which numbers may differ, of several the one with the fewest other
// numbers; or else the one of the space with most instructions in common. Returns as with_fork() does.
int find_counterpart(CandidateSpace& space, const Trace& trace);

// Takes the decisions that are wanted in place of valid ones: all at once, or one after the other as far as they
// satisfy the conditions.
void take_valid(const JointPrior& prior, const std::vector<Decision>& wanted, std::vector<Decision>& decisions);

// Makes the candidate one of that sketch, with the decisions of the trace for samples that both have: of several
// integers the nearest one is taken, and what does not satisfy the conditions is drawn as by CandidateBuilder::draw(),
// as are decisions for which `keep` says false. Tiles become legal when the candidate is built. False if the sketch has
// no valid draw.
bool carry_decisions(const CandidateSpace& space, int sketch, const Trace& trace,
                     const std::function<bool(std::size_t sample)>& keep, Candidate& candidate, Rng& rng);

// Makes the candidate one of another sketch. Decisions of samples that both sketches have in the same place are kept;
// the others are drawn as by CandidateBuilder::draw(). False if the sketch has no valid draw.
bool move_to_sketch(const CandidateSpace& space, Candidate& candidate, int sketch, Rng& rng);

}  // namespace tw
