#include "sampler/strategies/strategies.h"

#include "dsl/base/text.h"

namespace tw {

const std::vector<StrategyKind>& strategies() {
  static const std::vector<StrategyKind> table = {evolutionary_strategy(), reference_strategy(), annealing_strategy(),
                                                  metropolis_strategy(),   genetic_strategy(),   random_strategy(),
                                                  grid_strategy()};
  return table;
}

std::string strategy_names() {
  std::vector<std::string> names;
  for (const StrategyKind& kind : strategies()) names.push_back(kind.name);
  return join(names, ", ");
}

}  // namespace tw
