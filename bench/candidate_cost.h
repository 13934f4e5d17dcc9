// What a candidate of the search costs on one core, by stage and by instruction. For bench/search_profile; in CPU time
// of the thread, so that other work on the machine hardly counts.
#pragma once
#include <string>
#include <vector>

#include "sampler/space/candidate.h"

namespace tw::bench {

struct Cost {
  std::string name;
  double microseconds = 0;  // per candidate
  double times = 0;         // how often per candidate
};

struct CandidateCost {
  int candidates = 0, rejected = 0;
  double instructions = 0;              // per candidate
  std::vector<Cost> stages;             // draw, replay, postprocess, hash, draft, features
  std::vector<Cost> instruction_kinds;  // what replay consists of, dearest first; timing each costs about 0.05 us
};

// Of `count` draws from the prior, of all sketches in turn.
CandidateCost candidate_cost(const CandidateSpace& space, int count, u64 seed);

}  // namespace tw::bench
