#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "bench/experiments/stored_results.h"
#include "bench/fleet/fleet_bench.h"
#include "bench/fleet/virtual_fleet.h"
#include "bench/list_of.h"
#include "dsl/base/text.h"
#include "sampler/tasks/global_model.h"
#include "sampler/tasks/list_search.h"
#include "sampler/tasks/model_data.h"

namespace tw::bench {
namespace {

// Keeps what was measured.
class Keeper : public TuneObserver {
 public:
  explicit Keeper(StoredResults& results) : results_(results) {}
  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record& last) override {
    if (last.status == Record::not_recorded) return void(++unknown);
    if (!results_.of(last.workload, last.target).contains(last.program)) is_written &= results_.add(last);
  }
  void on_message(const std::string& text) override { std::fprintf(stderr, "%s\n", text.c_str()); }
  int unknown = 0;
  bool is_written = true;

 private:
  StoredResults& results_;
};

double best_until(const std::vector<VirtualResult>& results, double time) {
  double best = std::numeric_limits<double>::infinity();
  for (const VirtualResult& result : results) {
    if (result.at <= time) best = std::min(best, result.seconds);
  }
  return best;
}

struct Run {
  std::vector<VirtualResult> results;
  int unknown = 0;
  bool is_good = false;
};

Run search(const QualityLoad& load, const LoadedList& list, const TuneTask& task, StoredResults& stored,
           Measurer* measurer, const VirtualMachines& machines, u64 seed) {
  Run run;
  std::string scratch = (std::filesystem::temp_directory_path() / "tracewright_fleet_quality.db").string();
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(scratch + end);
  auto database = Database::open(scratch, DatabaseMode::Write);
  if (!database) return std::fprintf(stderr, "%s\n", database.error().c_str()), run;
  TaskKey key = key_of(task);
  const StoredResults::OfTask& known = stored.of(key.workload, key.target);
  auto find = [&known](const TuneTask&, const Hash128& program) {
    auto found = known.find(to_hex(program));
    return found == known.end() ? nullptr : &found->second;
  };
  std::string problem, model;
  if (load.has_transfer) model = read_global_model(kShippedModel, load.model, Objective::Usual, problem).value_or("");
  TuneOptions options{.trials = 1 << 20,
                      .seed = seed,
                      .rules = list.list.rules.value,
                      .search = choice_of(list.list.search),
                      .cost_model = load.model,
                      .global_model = model,
                      .replay_measurements = !measurer,
                      .known = find,
                      .rates = stored.rates()};
  Keeper keeper(stored);
  std::atomic<bool> stop = false;
  auto make = [&](const RunnerParts& with) {
    return std::make_unique<VirtualFleet>(with, machines, measurer, stop, run.results);
  };
  std::vector<TuneTask> tasks;
  for (const TuneTask& one : list.tasks) {
    if (one.name == task.name) tasks.push_back(one);
  }
  TuneResult result = tune_with(tasks, list.library, options, *database, make, keeper, stop);
  run.unknown = keeper.unknown;
  run.is_good = result.error.empty() && keeper.is_written;
  if (!result.error.empty()) std::fprintf(stderr, "%s\n", result.error.c_str());
  return run;
}

}  // namespace

int run_quality(const QualityLoad& load) {
  constexpr int kParts = 4;  // of the time, after each of which the best are compared
  std::optional<LoadedList> list = list_of(load.list);
  std::string error;
  std::unique_ptr<StoredResults> stored = StoredResults::open(load.results, error);
  if (!list || !stored) return std::fprintf(stderr, "%s\n", error.c_str()), 2;
  WorkerStart worker;
  if (load.measures) worker = start_worker();
  if (load.measures && !worker.measurer) return std::fprintf(stderr, "%s\n", worker.error.c_str()), 3;
  int unknown = 0;
  std::vector<double> logs(kParts, 0.0);
  std::vector<int> not_worse(kParts, 0);
  int runs = 0;
  for (const TuneTask& task : list->tasks) {
    for (int seed = 0; seed < load.seeds; ++seed) {
      auto run_of = [&](int machines, double seconds) {
        Run run = search(load, *list, task, *stored, worker.measurer.get(),
                         {machines, load.trial_seconds, load.round_seconds, seconds}, static_cast<u64>(seed));
        unknown += run.unknown;
        return run;
      };
      Run many = run_of(load.machines, load.seconds), one = run_of(1, load.times * load.seconds);
      if (!many.is_good || !one.is_good) return 1;
      std::printf("%s, seed %d: %zu and %zu trials; us of the best of %d machines and of one in %g times the time:",
                  task.name.c_str(), seed, many.results.size(), one.results.size(), load.machines, load.times);
      for (int part = 1; part <= kParts; ++part) {
        double time = load.seconds * part / kParts;
        double of_many = best_until(many.results, time), of_one = best_until(one.results, load.times * time);
        std::printf("  %.2f %.2f", 1e6 * of_many, 1e6 * of_one);
        logs[static_cast<std::size_t>(part - 1)] += std::log(of_one / of_many);
        not_worse[static_cast<std::size_t>(part - 1)] += of_many <= of_one;
      }
      std::printf("\n");
      std::fflush(stdout);
      ++runs;
    }
  }
  for (int part = 1; part <= kParts; ++part)
    std::printf(
        "after %.1f s: %d machines are %.4f times as fast as one in %g times the time (geometric mean), not "
        "slower in %d of %d\n",
        load.seconds * part / kParts, load.machines, std::exp(logs[static_cast<std::size_t>(part - 1)] / runs),
        load.times, not_worse[static_cast<std::size_t>(part - 1)], runs);
  if (unknown > 0) std::printf("%d trials have no stored result and counted as failed\n", unknown);
  return unknown > 0 ? 1 : 0;
}

}  // namespace tw::bench
