// Which of a strategy's candidates are measured. The best by score ("greedy"), or of rather more of them those that
// together have many different decisions ("diverse", AutoTVM, NeurIPS 2018); and in either case some at random. Where
// more are measured without each other's results than a usual batch has, every choice is diverse, the more so the more
// they are: the best by score of so many would be neighbours, that are good or bad together.
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

// What counts beside the score, in standard deviations of all scores.
struct Diversity {
  double alpha = 0;   // of a candidate whose decisions nobody chosen before has, in parts for a part of them
  double spread = 0;  // of one that differs in all decisions from each that was chosen before or is in flight, in parts
                      // for the one that it has most decisions in common with
  std::span<const Candidate> in_flight = {};
};

// So many of the candidates, each time the one with the largest gain. With alpha alone a set's worth is monotone and
// submodular in what it covers, so that the greedy choice is within 1 - 1/e of the best one.
std::vector<std::size_t> diverse_order(const std::vector<Candidate>& candidates, std::size_t count,
                                       const Diversity& wanted);

// Diversity::spread where so many candidates are measured without each other's results: 0 for those of a usual batch.
double spread_of(std::size_t together);

struct SelectionKind {
  const char* name;
  bool is_diverse;
  std::vector<Setting> settings;
};
const std::vector<SelectionKind>& selections();
SelectionOptions selection_options(const SelectionKind& kind, const Settings& settings);

}  // namespace tw
