#include <algorithm>
#include <cstdio>

#include "bench/fleet/fleet_bench.h"
#include "bench/fleet/fleet_processes.h"
#include "dsl/base/clock.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "runtime/fleet/tuner_link.h"

namespace tw::bench {
namespace {

constexpr const char* kTarget = "simulated";

QueuedTrial trial(i64 number, int tuner, int trace_bytes) {
  QueuedTrial made{.workload = to_hex(hash_bytes("workload")), .target = kTarget, .task = "task"};
  made.program = to_hex(hash_bytes(cat(tuner, " ", number)));
  made.seed = static_cast<u64>(tuner);
  Rng rng(static_cast<u64>(number), static_cast<u64>(tuner));
  while (static_cast<int>(made.trace.size()) < trace_bytes)
    made.trace += cat("  v", rng.below(100000), " = sample()\n");
  return made;
}

// Keeps `load.batch` trials in the queue and takes their outcomes until `stop`.
void tune_without_search(const QueueLoad& load, const std::string& address, int tuner, const std::atomic<bool>& stop,
                         std::atomic<i64>& ended) {
  auto link = TunerLink::open(address, cat("tuner ", tuner));
  if (!link) return void(std::fprintf(stderr, "%s\n", link.error().c_str()));
  Waiting waiting{.must_stop = [&] { return stop.load(); }, .say = [](const std::string&) {}};
  if (!(*link)->machine_for(kTarget, waiting)) return;
  i64 next = 0;
  constexpr int kParts = 8;  // of a batch: what is put in together
  while (!stop) {
    std::vector<QueuedTrial> part;
    for (int i = 0; i < load.batch / kParts; ++i) part.push_back(trial(next++, tuner, load.trace_bytes));
    if (!(*link)->put(std::move(part), waiting)) break;
    const std::size_t enough = load.batch - load.batch / kParts;
    while (!stop && (*link)->in_flight() > enough) {
      if (!(*link)->collect(waiting, [&](i64, const TrialOutcome&) { ++ended; }) || !(*link)->wait(waiting)) break;
    }
    if (!(*link)->error().empty()) break;
  }
  if (!(*link)->error().empty()) std::fprintf(stderr, "%s\n", (*link)->error().c_str());
}

}  // namespace

int run_queue(const QueueLoad& wanted) {
  constexpr int kOfMachine = 12, kLeast = 4000;  // a machine holds up to 8 of them
  QueueLoad load = wanted;
  if (load.batch == 0) load.batch = std::max(kOfMachine * load.machines / load.tuners, kLeast);
  std::unique_ptr<FleetServer> server =
      FleetServer::start(load.machines + load.machines / 64 + 3 * load.tuners + 20, load.shows_statements);
  if (!server) return 3;
  FleetProcess machines({.address = server->address(),
                         .machines = load.machines,
                         .seconds = load.trial_seconds,
                         .failed = 0.02,
                         .most = load.most});
  std::atomic<bool> stop = false;
  std::atomic<i64> ended = 0;
  constexpr double kMostToStart = 300;
  const double started = seconds_now();
  while (machines.counts().machines < load.machines && seconds_now() - started < kMostToStart)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::printf("%lld machines are there after %.1f s\n", static_cast<long long>(machines.counts().machines),
              seconds_now() - started);
  // Only now: a session that begins beside others that work has little of the server's time.
  std::vector<std::thread> tuners;
  for (int i = 0; i < load.tuners; ++i)
    tuners.emplace_back([&, i] { tune_without_search(load, server->address(), i, stop, ended); });
  const double warm_up = 5 + load.machines / 40.0;  // sessions of the server are slow at first
  std::this_thread::sleep_for(std::chrono::duration<double>(warm_up));
  double begin = seconds_now(), server_begin = server->processor_seconds();
  double fleet_begin = machines.processor_seconds(), own_begin = processor_seconds();
  SimulatedCounts before = machines.counts();
  i64 ended_before = ended;
  while (seconds_now() - begin < load.seconds) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::printf("%5.1f s: %lld trials\n", seconds_now() - begin,
                static_cast<long long>(machines.counts().trials() - before.trials()));
    std::fflush(stdout);
  }
  SimulatedCounts after = machines.counts();
  double seconds = seconds_now() - begin, trials = static_cast<double>(after.trials() - before.trials());
  double on_server = server->processor_seconds() - server_begin;
  double on_fleet = machines.processor_seconds() - fleet_begin, on_tuners = processor_seconds() - own_begin;
  std::printf("%d machines, %d tuners: %.0f trials/s measured, %.0f trials/s known to tuners\n", load.machines,
              load.tuners, trials / seconds, static_cast<double>(ended - ended_before) / seconds);
  std::printf("processor time of a trial: server %.0f us, machines %.0f us, tuners %.0f us\n", 1e6 * on_server / trials,
              1e6 * on_fleet / trials, 1e6 * on_tuners / trials);
  const double writes = static_cast<double>(after.writes - before.writes);
  std::printf(
      "%.2f leases a trial, %.1f ms; %.2f results are written together, which takes %.1f ms; one waits %.2f s for "
      "that, "
      "%.1f s the longest from the start on\n",
      static_cast<double>(after.leases - before.leases) / trials, 1e3 * (after.leasing - before.leasing) / trials,
      trials / writes, 1e3 * (after.finishing - before.finishing) / writes, (after.held - before.held) / trials,
      after.longest_held);
  std::printf("%.3f heartbeats a trial, %.3f left out\n", static_cast<double>(after.beats - before.beats) / trials,
              static_cast<double>(after.left_out - before.left_out) / trials);
  if (load.shows_statements) server->print_statements(after.trials());
  stop = true;
  for (std::thread& tuner : tuners) tuner.join();
  return machines.stop() ? 0 : 1;
}

}  // namespace tw::bench
