#include "runtime/peers/model_race.h"

#include "dsl/base/clock.h"

namespace tw {
namespace {

bool wants_stop(const RaceOptions& options) { return options.stop && options.stop(); }

// The time of each racer, 0 where it has none. False if the race is over.
bool run_round(std::vector<Racer>& racers, std::size_t first, const RaceOptions& options, std::vector<double>& times) {
  times.assign(racers.size(), 0);
  for (std::size_t i = 0; i < racers.size(); ++i) {
    std::size_t turn = (first + i) % racers.size();
    Racer& racer = racers[turn];
    if (wants_stop(options)) return false;
    if (!racer.problem.empty()) continue;
    PeerResult<ModelTurn> took = racer.peer->turn(options.turn_seconds);
    racer.problem = took.message;
    if (took) times[turn] = took.value.seconds;
    if (!racers[0].problem.empty()) return false;
  }
  return true;
}

}  // namespace

void race(std::vector<Racer>& racers, const RaceOptions& options) {
  std::vector<double> times;
  if (!run_round(racers, 0, options, times)) return;
  const double end = seconds_now() + options.seconds;
  for (int round = 0; round < options.fewest_rounds || seconds_now() < end; ++round) {
    if (!run_round(racers, static_cast<std::size_t>(round) % racers.size(), options, times)) return;
    for (std::size_t i = 0; i < racers.size(); ++i) {
      if (times[i] == 0) continue;
      racers[i].times.push_back(times[i]);
      racers[i].ratios.push_back(times[i] / times[0]);
    }
  }
}

}  // namespace tw
