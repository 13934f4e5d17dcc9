// Times of several programs of one task, measured in turn in one run: what searches found at different times, on a
// machine that is not equally fast at all of them, can be compared by nothing else.
#pragma once
#include <map>
#include <string>

#include "sampler/search/tune.h"

namespace tw::bench {

// Seconds of each program, by its name in `traces`; each is rebuilt from its trace. All are ratios to the same one of
// them, the median of `rounds`. What cannot be built or measured has no time.
std::map<std::string, double> times_in_turn(const TuneTask& task, const std::map<std::string, std::string>& traces,
                                            int rounds, Measurer& measurer);

}  // namespace tw::bench
