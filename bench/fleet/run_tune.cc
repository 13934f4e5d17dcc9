#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>

#include "bench/fleet/fleet_bench.h"
#include "bench/fleet/fleet_processes.h"
#include "bench/simulated.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "sampler/search/fleet_runner.h"

namespace tw::bench {
namespace {

double ms_since_1970() {
  using namespace std::chrono;
  return duration<double, std::milli>(system_clock::now().time_since_epoch()).count();
}

// How long ago the result of each trial was written, when the tuner hears of it.
class Latencies : public TuneObserver {
 public:
  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record& last) override {
    std::lock_guard lock(mutex_);
    ++trials_;
    if (last.created > 0) ms_.push_back(ms_since_1970() - static_cast<double>(last.created));
  }
  void on_message(const std::string& text) override { std::fprintf(stderr, "%s\n", text.c_str()); }
  i64 trials() {
    std::lock_guard lock(mutex_);
    return trials_;
  }
  // The latencies of the results since the last call, in milliseconds.
  std::vector<double> take() {
    std::lock_guard lock(mutex_);
    return std::exchange(ms_, {});
  }

 private:
  std::mutex mutex_;
  i64 trials_ = 0;
  std::vector<double> ms_;
};

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

struct Sample {
  double at = seconds_now(), server, fleet, own = processor_seconds();
  SimulatedCounts counts;
};

void print_row(const TuneLoad& load, const Sample& from, const Sample& to, std::vector<double> latencies,
               const char* name) {
  double seconds = to.at - from.at;
  std::printf("%8s %9.1f %8.3f %10.1f %10.1f %8.2f %8.2f %8.2f %8.1f\n", name,
              static_cast<double>(to.counts.trials() - from.counts.trials()) / seconds,
              (to.counts.busy - from.counts.busy) / (seconds * load.machines), quantile(latencies, 0.5),
              quantile(latencies, 0.99), (to.server - from.server) / seconds, (to.fleet - from.fleet) / seconds,
              (to.own - from.own) / seconds, resident_mebibytes());
  std::fflush(stdout);
}

// Prints a row every few seconds until `stop`, and one for all that is counted.
void watch(const TuneLoad& load, const FleetServer& server, const FleetProcess& machines, Latencies& latencies,
           const std::atomic<bool>& stop) {
  constexpr double kRow = 5;
  auto sample = [&] {
    return Sample{
        .server = server.processor_seconds(), .fleet = machines.processor_seconds(), .counts = machines.counts()};
  };
  std::printf("%8s %9s %8s %10s %10s %8s %8s %8s %8s\n", "seconds", "trials/s", "busy", "median ms", "99 % ms",
              "server", "machines", "tuner", "MiB");
  double begin = seconds_now();
  Sample last = sample(), counted = last;
  std::vector<double> all;
  bool is_counted = false;
  while (!stop && last.at - begin < load.seconds - 1) {
    while (!stop && seconds_now() - last.at < kRow) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (stop) break;
    Sample now = sample();
    std::vector<double> row = latencies.take();
    print_row(load, last, now, row, cat(static_cast<int>(now.at - begin + 0.5)).c_str());
    if (is_counted) all.insert(all.end(), row.begin(), row.end());
    if (!is_counted && now.at - begin >= load.begin) is_counted = true, counted = now;
    last = now;
  }
  if (is_counted) print_row(load, counted, last, all, "all");
}

}  // namespace

int run_tune(const TuneLoad& load) {
  std::unique_ptr<FleetServer> server =
      FleetServer::start(load.machines + load.machines / 64 + 40, load.shows_statements);
  if (!server) return 3;
  FleetProcess machines({.address = server->address(),
                         .machines = load.machines,
                         .seconds = 1 / load.rate,
                         .compile = load.compile,
                         .failed = load.failed,
                         .lost = load.lost,
                         .most = load.most});
  auto database = Database::open(server->address(), DatabaseMode::Write);
  auto link = TunerLink::open(server->address(), "tuner");
  if (!database || !link) return std::fprintf(stderr, "no database\n"), 3;
  std::vector<TuneTask> tasks;
  if (load.tasks > 1)
    tasks = simulated_tasks(load.tasks);
  else
    tasks.push_back(simulated_large_task());
  TuneOptions options{.trials = load.trials,
                      .seconds = load.seconds,
                      .seed = 1,
                      .threads = load.threads,
                      .rules = "cpu",
                      .cost_model = load.model};
  Latencies latencies;
  std::atomic<bool> stop = false, is_done = false;
  std::thread watcher([&] { watch(load, *server, machines, latencies, is_done); });
  rules::Library library = rules::Library::built_in();
  TuneResult result = tune_on_fleet(tasks, library, options, *database, **link, latencies, stop);
  is_done = true;
  watcher.join();
  if (!result.error.empty()) std::fprintf(stderr, "%s\n", result.error.c_str());
  const TuneProfile& p = result.profile;
  std::printf(
      "%lld trials in %.1f s; seconds of the tuner: search %.1f, training %.1f, waiting %.1f; %lld candidates\n",
      static_cast<long long>(result.measured), result.seconds, result.search_seconds, p.training, p.waiting,
      static_cast<long long>(result.candidates));
  SimulatedCounts counts = machines.counts();
  std::printf("machines: %lld failed, %lld faults, %lld late, %lld repeated, lost %lld times\n",
              static_cast<long long>(counts.failed), static_cast<long long>(counts.faults),
              static_cast<long long>(counts.late), static_cast<long long>(counts.repeated),
              static_cast<long long>(counts.lost));
  if (load.shows_statements) server->print_statements(counts.trials());
  return machines.stop() && result.error.empty() ? 0 : 1;
}

}  // namespace tw::bench
