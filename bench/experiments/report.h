// What an experiment found: two files of CSV (RFC 4180), and a table for people.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/experiments/curves.h"
#include "bench/experiments/run_arm.h"

namespace tw::bench {

// How long the first and the best program of a run take, in seconds; kNever if all trials failed. nullopt: other
// programs of the task were measured in turn, and this one has no time there; or all trials failed or are unknown.
struct Found {
  std::optional<double> first = kNever, best = kNever;
};
// What one arm did on one task, for all seeds.
struct Cell {
  const TuneTask* task;
  double flops;  // of one call of the task
  const Arm* arm;
  std::vector<ArmRun> runs;  // that did not end early
  std::vector<Found> found;  // of each run; empty if they were not compared
  bool is_in_turn = false;   // the times of `found` were measured in turn; else they are those of the searches
  int ended_early = 0;       // runs that are left out
};

// GFLOP/s of the cell's task where a call takes so many seconds; 0 where it never ends.
double gflops(const Cell& cell, double seconds);

// A line for each trial: the best so far.
std::string curves_csv(const std::vector<Cell>& cells);
// A line for each task and arm: medians over the seeds, and their range. What has no value is empty.
std::string summary_csv(const std::vector<Cell>& cells);
// For each arm the geometric mean over the tasks, and their seconds together, on standard output. The tasks are those
// on which all arms have something to compare, but for arms that have nothing anywhere. Returns a line for each arm
// that lacks tasks, which names them.
std::string print_arms(const std::vector<Cell>& cells, const std::vector<Arm>& arms);

}  // namespace tw::bench
