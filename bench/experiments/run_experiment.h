// A whole experiment: the searches of its arms and seeds, one after the other, and the files that say what they found.
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "runtime/measure/measurer.h"

namespace tw::bench {

// What the command line says beside the file.
struct ExperimentOptions {
  std::vector<std::string> files, tasks, arms;  // tasks, arms: empty = all
  std::string output = ".", results;            // the folder; the stored results, "" = those in the folder
  i64 trials = 0;                               // 0 = as many as the experiment says; so with `seeds`
  int seeds = 0;
  bool replay = false;  // measure nothing
};

// Exit codes, those of tracewright (docs/commands.md).
enum ExitCode : int { Reached = 0, NotReached = 1, Usage = 2, Environment = 3, Interrupted = 130 };

// Runs the experiment of a file and writes its curves and summary into the folder. An arm that cannot go on is said and
// counts as not reached; the others go on. After an interruption what was measured is stored, and no file is written.
// `measurer` is null with `replay`.
ExitCode run_experiment(const std::string& file, const ExperimentOptions& options, Measurer* measurer,
                        const std::atomic<bool>& stop);

}  // namespace tw::bench
