// Times of several programs of one task, measured in turn in one run: what searches found at different times, on a
// machine that is not equally fast at all of them, can be compared by nothing else.
#pragma once
#include <map>
#include <string>

#include "bench/experiments/curves.h"
#include "sampler/search/tune.h"

namespace tw::bench {

struct Contender {
  std::string trace;         // makes the program; "" for the untuned one
  double searched = kNever;  // its seconds by the search that found it; kNever where they are not known
};

// Seconds of each program, by its name; each is rebuilt from its trace. All are ratios to the one that was the fastest
// of its search, the median of `rounds`. What cannot be built or measured has no time.
std::map<std::string, double> times_in_turn(const TuneTask& task, const std::map<std::string, Contender>& programs,
                                            int rounds, Measurer& measurer);

}  // namespace tw::bench
