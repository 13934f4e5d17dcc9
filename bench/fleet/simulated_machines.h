// Machines of a fleet that measure nothing: they lease trials as a measuring machine does (sampler/fleet), sleep in
// place of compiling and measuring, fail now and then, and write results while later trials are measured. The time of a
// kernel follows from the lines of its trace, so that a cost model can learn it. Used by bench/fleet and by tests.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/fleet/lasting_queue.h"

namespace tw::bench {

struct SimulatedFleet {
  std::string address;  // of the database
  int machines = 64;
  double seconds = 0.2;  // of a trial, the mean; 0: results are written at once
  double compile = 0;    // seconds of compiling where nothing is measured meanwhile: the first trial after a wait
  double spread = 0.3;   // of the logarithm of these seconds, standard deviation
  double failed = 0.02;  // share of trials that fail
  double faults = 0;     // share of trials that end with a fault
  double lost = 0;       // share of trials in which the machine is lost: it says nothing more and comes back as another
  double lost_seconds = 1;  // after which it comes back
  int most = 4;             // trials of a lease
  u64 seed = 1;
};

struct SimulatedCounts {
  i64 good = 0, failed = 0, faults = 0, late = 0, repeated = 0, lost = 0;
  i64 trials() const { return good + failed; }
  i64 machines = 0;                   // that are there
  double busy = 0;                    // seconds of measuring, of all machines together
  double leasing = 0, finishing = 0;  // seconds of waiting for the queue's answers, likewise
  i64 leases = 0;                     // questions for trials
  i64 writes = 0;                     // of results, of one or several together
  i64 beats = 0, left_out = 0;        // heartbeats that were sent, and that were not (LifeSigns)
  double held = 0, longest_held = 0;  // seconds that results waited until they were sent, together and the longest
};

// Seconds of a kernel call with this trace, between a microsecond and a second: each line makes it slower or faster.
double simulated_kernel_seconds(const std::string& trace);

class SimulatedMachines {
 public:
  // Starts them; each has a thread and a connection. Heartbeats go through a connection for each 64 machines.
  explicit SimulatedMachines(const SimulatedFleet& fleet);
  // Their trials go back.
  ~SimulatedMachines();
  SimulatedMachines(const SimulatedMachines&) = delete;
  SimulatedCounts counts() const;                      // so far
  const std::string& error() const { return error_; }  // "" = none; to be read after stop()
  void stop();

 private:
  struct Machine;
  void work(Machine& machine);
  void measure(Machine& machine, const LeasedTrial& trial, bool is_last);
  bool announce(Machine& machine);
  bool lease(Machine& machine);
  void write(Machine& machine);
  void sleep_and_write(Machine& machine, double end);
  void beat(std::size_t first, std::size_t end);

  SimulatedFleet fleet_;
  Waiting waiting_;
  std::atomic<bool> stop_ = false;
  std::string error_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::thread> threads_, beats_;
};

}  // namespace tw::bench
