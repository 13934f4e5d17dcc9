// One search of an experiment, and what came of it trial by trial.
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "bench/experiments/experiment.h"
#include "bench/experiments/stored_results.h"

namespace tw::bench {

// A program that a run found, and the trace that makes it; "" for the untuned one.
struct FoundProgram {
  std::string program, trace;
};

struct ArmRun {
  FoundProgram first, best;     // the first trial, and the fastest; of failed ones nothing
  std::vector<double> seconds;  // of each trial, in order, that of the untuned program included; infinite = failed
  int unknown = 0;              // trials without a stored result, where nothing is measured: they count as failed
  double wall_seconds = 0, search_seconds = 0, training_seconds = 0;
  i64 candidates = 0;
  std::string problem;  // not empty: the run ended early
};

// Searches one task with an arm's choice. What `results` does not hold is measured and added there; with `measurer`
// null it counts as failed. Nothing else is remembered between two runs. `scratch` is the path of a database that is
// made and removed.
ArmRun run_arm(const LoadedList& list, const TuneTask& task, const Arm& arm, i64 trials, u64 seed,
               StoredResults& results, Measurer* measurer, const std::string& scratch, const std::atomic<bool>& stop);

}  // namespace tw::bench
