// What a fleet of many machines does with one PostgreSQL server, simulated on this machine. The machines sleep and fail
// like real ones; the server, the queue and the tuner are the real ones.
//   tracewright-fleet-bench queue [--machines 1000] [--tuners 2] [--seconds 20] [--trace-bytes 2048]
//   tracewright-fleet-bench tune [--machines 64] [--rate 5] [--seconds 60] [--tasks 1] [--lost 0]
//   tracewright-fleet-bench quality [--machines 16] [--times 8] [--seconds 6.4] [--seeds 5] [--measure]
// queue: how many trials a second the queue does where searching and measuring take no time.
// tune: how busy the machines are, how soon the tuner knows of a result, and how much memory it takes.
// quality: what many machines find, and one in more time, in virtual time and on stored measurements. Needs no server.
#include <CLI/CLI.hpp>

#include "bench/fleet/fleet_bench.h"

int main(int count, char** words) {
  using namespace tw::bench;
  CLI::App app("Many simulated machines on one PostgreSQL server");
  app.require_subcommand(1);
  QueueLoad load;
  CLI::App* queue = app.add_subcommand("queue", "trials a second of the queue itself");
  queue->add_option("--machines", load.machines, "that lease trials and write results at once");
  queue->add_option("--tuners", load.tuners, "that put trials in and take outcomes");
  queue->add_option("--seconds", load.seconds, "of the run");
  queue->add_option("--batch", load.batch, "trials of a tuner in the queue; 0 = enough for all machines");
  queue->add_option("--trial", load.trial_seconds, "seconds of a trial; 0 = all machines ask as fast as they can");
  queue->add_option("--most", load.most, "trials of a lease of a quick server");
  queue->add_option("--trace-bytes", load.trace_bytes, "length of a trace");
  queue->add_flag("--statements", load.shows_statements, "show which statements cost the server most");
  TuneLoad tuned;
  CLI::App* tune = app.add_subcommand("tune", "one real tuner: busy time, latency, memory");
  tune->add_option("--machines", tuned.machines, "that sleep in place of measuring");
  tune->add_option("--rate", tuned.rate, "trials a second of a machine");
  tune->add_option("--compile", tuned.compile, "seconds until the first trial of a lease is compiled");
  tune->add_option("--seconds", tuned.seconds, "of the run");
  tune->add_option("--begin", tuned.begin, "seconds that are not counted, until the fleet has its rate");
  tune->add_option("--tasks", tuned.tasks, "number of tasks; 1 = one with a space of millions of candidates");
  tune->add_option("--trials", tuned.trials, "of each task");
  tune->add_option("--most", tuned.most, "trials of a lease of a quick server");
  tune->add_option("--failed", tuned.failed, "share of trials that fail");
  tune->add_option("--lost", tuned.lost, "share of trials in which the machine is lost");
  tune->add_option("--model", tuned.model, "cost model");
  tune->add_option("--threads", tuned.threads, "of the search; 0 = all");
  tune->add_flag("--statements", tuned.shows_statements, "show which statements cost the server most");
  QualityLoad found;
  CLI::App* quality = app.add_subcommand("quality", "the best of many machines against one in more time");
  quality->add_option("--list", found.list, "task list");
  quality->add_option("--results", found.results, "stored measurements; new ones are appended");
  quality->add_option("--machines", found.machines, "that measure");
  quality->add_option("--times", found.times, "the time that one machine has more");
  quality->add_option("--seconds", found.seconds, "virtual, of the many machines");
  quality->add_option("--trial", found.trial_seconds, "virtual seconds of a trial");
  quality->add_option("--round", found.round_seconds, "virtual seconds of a round of the search");
  quality->add_option("--seeds", found.seeds, "how many");
  quality->add_option("--model", found.model, "cost model");
  quality->add_flag("--measure", found.measures, "measure on this machine what is not stored");
  CLI11_PARSE(app, count, words);
  return queue->parsed() ? run_queue(load) : tune->parsed() ? run_tune(tuned) : run_quality(found);
}
