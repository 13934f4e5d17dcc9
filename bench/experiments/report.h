// What an experiment found: two files of CSV (RFC 4180), and a table for people.
#pragma once
#include <string>
#include <vector>

#include "bench/experiments/curves.h"
#include "bench/experiments/run_arm.h"

namespace tw::bench {

// How long the first and the best program of a run take, in seconds.
struct Found {
  double first = kNever, best = kNever;
};
// What one arm did on one task, for all seeds.
struct Cell {
  const TuneTask* task;
  double flops;  // of one call of the task
  const Arm* arm;
  std::vector<ArmRun> runs;
  std::vector<Found> found;  // of each run; empty if the programs were not measured in turn
};

// GFLOP/s of the cell's task where a call takes so many seconds; 0 where it never ends.
double gflops(const Cell& cell, double seconds);

// A line for each trial: the best so far.
std::string curves_csv(const std::vector<Cell>& cells);
// A line for each task and arm: medians over the seeds, and their range.
std::string summary_csv(const std::vector<Cell>& cells);
// For each arm the geometric mean over the tasks, on standard output.
void print_arms(const std::vector<Cell>& cells, const std::vector<Arm>& arms);

}  // namespace tw::bench
