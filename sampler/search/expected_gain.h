// How much another batch of trials is expected to gain, judging by the trials so far. tune.cc ends tasks by it.
#pragma once
#include <vector>

namespace tw {

// The part of the best time by which the next 32 trials are expected to lower it. `seconds` of all trials in their
// order, infinite where one failed. 1 as long as there are too few to say. Two views, of which the larger counts: half
// of what the last 64 trials gained, and what as many draws from what these 64 gave would gain by luck (the chance of a
// record among them, times the mean distance between the fastest five).
double expected_gain(const std::vector<double>& seconds);

}  // namespace tw
