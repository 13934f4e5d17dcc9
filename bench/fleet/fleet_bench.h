// The loads of bench/fleet.
#pragma once
#include <string>

#include "dsl/base/arena.h"

namespace tw::bench {

struct QueueLoad {
  int machines = 1000, tuners = 2, most = 4, trace_bytes = 2048;
  int batch = 0;  // trials of a tuner in the queue; 0 = twelve for each machine of all tuners together, at least 4,000
  double seconds = 20, trial_seconds = 0;
  bool shows_statements = false;
};
// Prints trials a second, and processor time of a trial. The exit code.
int run_queue(const QueueLoad& load);

struct TuneLoad {
  int machines = 64, tasks = 1, most = 4, threads = 0;
  double rate = 5, compile = 0.02, seconds = 60, begin = 10, failed = 0.02, lost = 0;
  i64 trials = 1 << 30;
  std::string model = "tree";
  bool shows_statements = false;
};
// Prints a row a few seconds: trials a second, busy share, latency, memory. The exit code.
int run_tune(const TuneLoad& load);

struct QualityLoad {
  std::string list = "bench/fleet/quality.yaml", results = "bench/fleet/quality.results.csv.gz", model = "auto";
  int machines = 16, seeds = 5;
  double times = 8, seconds = 6.4, trial_seconds = 0.2, round_seconds = 0.3;
  bool measures = false, has_transfer = true;
};
// Prints for each task and seed the best of many machines, and of one in more time. The exit code.
int run_quality(const QualityLoad& load);

}  // namespace tw::bench
