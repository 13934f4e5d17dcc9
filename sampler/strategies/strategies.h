// All strategies by name. A new one is a file of this folder, a line here and one in strategies.cc.
#pragma once
#include <memory>

#include "sampler/strategies/settings.h"
#include "sampler/strategies/strategy.h"

namespace tw {

struct StrategyKind {
  const char* name;
  // A selection picks the batch from what it proposes, by scores. Otherwise the strategy picks it.
  bool has_scores;
  bool uses_model;  // a learned one
  // A task begins with the best draw by the draft model: what a tuner has that measures nothing.
  bool begins_with_draft;
  std::vector<Setting> settings;
  std::unique_ptr<Strategy> (*make)(const Settings& settings);
  // Why it cannot search a space, as a sentence; "" if it can. Null: it can search any.
  std::string (*why_not)(const CandidateSpace& space, const Settings& settings) = nullptr;
};

const std::vector<StrategyKind>& strategies();
// "evolutionary, reference, ..."
std::string strategy_names();

// What the files of this folder add to the table.
StrategyKind evolutionary_strategy();
StrategyKind reference_strategy();
StrategyKind annealing_strategy();
StrategyKind metropolis_strategy();
StrategyKind genetic_strategy();
StrategyKind random_strategy();
StrategyKind grid_strategy();

}  // namespace tw
