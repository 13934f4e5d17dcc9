// Which of a strategy's candidates are measured. The best by score ("greedy"), or of rather more of them those that
// together have many different decisions ("diverse", AutoTVM, NeurIPS 2018); and in either case some at random.
#pragma once
#include <string>
#include <vector>

#include "sampler/strategies/settings.h"
#include "sampler/strategies/strategy.h"

namespace tw {

struct SelectionOptions {
  bool is_diverse = false;
  double epsilon = 0.05;  // share of a batch that is picked at random
  double unproven_share =
      0.25;           // of a batch, for each sketch of which no elite is: what a model thinks of it is a guess
  double lambda = 2;  // a diverse batch of b is chosen among the best lambda * b
  double alpha = 1;   // what new decisions count against the score; see diverse_order
};

// Chooses at most round.count of a pool, best first, with about epsilon * count random ones at the end.
std::vector<Candidate> select_batch(std::vector<Candidate> pool, const Round& round, const SelectionOptions& options);

// So many of the candidates, each time the one with the largest gain: its score in standard deviations of all scores,
// and alpha times the part of its decisions that none chosen before has. A set's worth is then monotone and submodular
// in what it covers, so that the greedy choice is within 1 - 1/e of the best one.
std::vector<std::size_t> diverse_order(const std::vector<Candidate>& candidates, std::size_t count, double alpha);

struct SelectionKind {
  const char* name;
  bool is_diverse;
  std::vector<Setting> settings;
};
const std::vector<SelectionKind>& selections();
SelectionOptions selection_options(const SelectionKind& kind, const Settings& settings);

}  // namespace tw
