// Evolutionary search over traces (MetaSchedule, NeurIPS 2022; Ansor, OSDI 2020), with a draft model in front of the
// learned one (Pruner, ASPLOS 2025): many candidates are replayed and draft-scored, the survivors are scored by the
// model, the best go on.
#pragma once

#include "costmodel/cost_model.h"
#include "sampler/space/candidate.h"
#include "sampler/space/known.h"

namespace tw {

struct EvolutionOptions {
  int population = 512;
  int draws = 1024;             // fresh draws per round, of which the best drafts are kept
  double measured_ratio = 0.2;  // share of the population that measured candidates may take
  int generations = 4;
  double mutate_probability = 0.85;
  double fork_probability = 0.1;  // of mutations: another way at a fork, all other decisions kept
  int new_sketches = 16;          // that forks may add to a space in a generation
  double epsilon = 0.05;          // share of a batch that is picked at random
  double unproven_share =
      0.25;  // of a batch, for each sketch of which no elite is: what the model thinks of it is a guess
  bool keep_features = false;  // of all that is built, also where there is no model yet: one will score them
  int threads = 1;
  std::function<bool()> stop = {};  // asked now and then: once true, what is proposed is worth nothing
};

struct EvolutionStats {
  i64 candidates = 0;  // different programs that were replayed, postprocessed and draft-scored
  i64 rejected = 0;    // by an instruction or a postprocessor
  i64 repeats = 0;     // decisions or programs that were there before in this task
  // Of all threads together.
  double draw_seconds = 0, model_seconds = 0;
  BuildSeconds build;
};

// Proposes at most `count` candidates that are not in `measured`, best first, with about epsilon * count random ones at
// the end. `elites` are measured candidates, fastest first. model: null = the draft model alone. `known` collects what
// was built for this task, the space the sketches that are new. The result depends on the arguments and `rng` only, not
// on the number of threads.
std::vector<Candidate> evolve(CandidateSpace& space, const std::vector<Candidate>& elites, const HashSet& measured,
                              const CostModel* model, int count, const Rng& rng, const EvolutionOptions& options,
                              KnownCandidates& known, EvolutionStats& stats);

// The best of many draws by the draft model alone: the zero-trial candidate. Nothing if no draw is valid.
std::optional<Candidate> construct(CandidateSpace& space, const Rng& rng, const EvolutionOptions& options,
                                   KnownCandidates& known, EvolutionStats& stats);

}  // namespace tw
