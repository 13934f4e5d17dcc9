// A strategy proposes what a task measures next; each is a file of this folder, made by name (strategies.h). It belongs
// to one task and may keep what goes on between rounds. It sees candidates, scores and measured times, never records.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "costmodel/cost_model.h"
#include "sampler/space/candidate.h"
#include "sampler/space/known.h"
#include "sampler/strategies/acquisition.h"

namespace tw {

struct SearchStats {
  i64 candidates = 0;  // different programs that were replayed, postprocessed and draft-scored
  i64 rejected = 0;    // by an instruction or a postprocessor
  i64 repeats = 0;     // decisions or programs that were there before in this task
  // Seconds, added up over all threads.
  double draw_seconds = 0, model_seconds = 0;
  double first_kernel_seconds = 0;  // wall time of choosing first kernels by their machine code
  BuildSeconds build;
};

// How a round is worked on; what it gives depends on none of this.
struct RoundOptions {
  bool keep_features = false;  // of all that is built, also where there is no model yet: one will score them
  int threads = 1;
  std::function<bool()> stop = {};  // asked now and then: once true, what is proposed is worth nothing
};

// Seconds of measured programs; infinite = failed.
using MeasuredTimes = std::unordered_map<Hash128, double, HashOfHash>;

// All that a strategy may know when it proposes. What it proposes depends on this and on what it keeps only.
struct Round {
  CandidateSpace& space;              // new sketches are added
  std::span<const Candidate> elites;  // measured candidates, fastest first; after them the best of other machines
  const HashSet& measured;            // what must not be proposed: measured, or about to be
  const MeasuredTimes& times;
  const CostModel* model;   // null = the draft model alone
  Acquisition acquisition;  // what of the model's prediction counts
  int count;                // candidates that are wanted
  const Rng& rng;
  KnownCandidates& known;  // collects what was built for this task
  SearchStats& stats;
  const RoundOptions& options;
  // Where many machines measure: how many candidates are measured without each other's results, and those of them that
  // are in flight already. The batch should not be more of the same.
  std::size_t together = 0;
  std::span<const Candidate> in_flight = {};
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual const char* name() const = 0;
  // Candidates that are built and not measured, each program once. They are scored, and a selection takes the batch
  // from them; a strategy that picks itself (StrategyKind) gives the batch, in order. Empty = it has no further one.
  virtual std::vector<Candidate> propose(const Round& round) = 0;
  // Trials of a batch; 0 = left to the tuner, whose first batches are small.
  virtual int batch() const { return 0; }
  // Why it can propose nothing for this task, as a sentence; "" if it can.
  virtual std::string problem() const { return ""; }
};

}  // namespace tw
