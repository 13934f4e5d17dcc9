// Models timed in turn: in every round each has one turn, so that a machine whose speed drifts disturbs all alike, and
// only ratios within a round count. Who begins changes from round to round.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/peers/model_peer.h"

namespace tw {

struct Racer {
  ModelPeer* peer = nullptr;
  std::vector<double> times;   // seconds of a call, for each counted round
  std::vector<double> ratios;  // its time / that of the first racer in the same round
  std::string problem;         // why it runs no more; it has no further turns
};

struct RaceOptions {
  double seconds = 30;  // for all rounds together
  double turn_seconds = 0.15;
  int fewest_rounds = 5;            // even if they take longer
  std::function<bool()> stop = {};  // asked between turns; true ends the race
};

// The first round does not count. The race ends early where the first racer, which is ours, has a problem.
void race(std::vector<Racer>& racers, const RaceOptions& options);

}  // namespace tw
