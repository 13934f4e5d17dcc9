// One search of an experiment, and what came of it trial by trial.
#pragma once
#include <atomic>
#include <optional>
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
  u64 seed = 0;
  FoundProgram first, best;     // the first trial, and the fastest; of failed ones nothing
  std::vector<double> seconds;  // of each trial, in order, that of the untuned program included; infinite = failed
  int unknown = 0;              // trials without a stored result, where nothing is measured: they count as failed
  std::optional<SearchSeconds> took;  // of the run that measured most of it; nullopt: none is stored
  std::string problem;                // what went wrong, if something did
  bool has_ended_early = false;       // by that problem: not all its trials were done
};

// What all runs of an experiment share.
struct Surroundings {
  const LoadedList& list;
  StoredResults& results;  // what it does not hold is measured and added there
  Measurer* measurer;      // null: what is not stored counts as failed
  std::string scratch;     // path of a database that is made and removed
  const std::atomic<bool>& stop;
};

// Searches one task with an arm's choice. Nothing but results and seconds is remembered between two runs. `global`: the
// bytes of a model that was trained before, "" = none, or the one that the arm's `transfer` names.
ArmRun run_arm(const Surroundings& with, const TuneTask& task, const Arm& arm, i64 trials, u64 seed,
               const std::string& global = "");

// The bytes of a cost model of the arm's kind that has learned the order in these tasks, tuned together with the choice
// of `tuner`; "" after a problem. When that search has ended, its trials are kept in a database beside the scratch one,
// so that the next call with the same tasks, choice, number of trials and seed searches and measures nothing.
std::string learned_model(const Surroundings& with, const std::vector<TuneTask>& tasks, const Arm& arm,
                          const Arm& tuner, i64 trials, u64 seed, std::string& problem);

}  // namespace tw::bench
