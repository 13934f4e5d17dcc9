// Where the time of a tune goes. First what one candidate costs (draw, replay, hash, draft score, features; instruction
// by instruction), then a whole tune of a task list from an empty database, with its time by stage.
//   search_profile LIST.yaml [--trials 100] [--seed 1] [--threads 0] [--model auto] [--rules NAME] [--task NAME]
//                  [--count 1000] [--no-tune] [--synthetic]
// --no-tune: the cost of candidates only. --synthetic: kernels are compiled and not run; their times follow from their
// code.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "bench/candidate_cost.h"
#include "bench/list_of.h"
#include "bench/simulated.h"
#include "costmodel/make_model.h"
#include "dsl/base/text.h"
#include "sampler/search/task_state.h"

namespace tw::bench {
namespace {

struct Options {
  std::string list, model = "auto", rules, task;
  i64 trials = 100;
  u64 seed = 1;
  int threads = 0, count = 1000;
  bool no_tune = false, synthetic = false;
};

class Quiet : public TuneObserver {
 public:
  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record&) override {}
  void on_message(const std::string& text) override { std::fprintf(stderr, "%s\n", text.c_str()); }
};

std::string temporary_database() {
  std::string path = (std::filesystem::temp_directory_path() / "tracewright_search_profile.db").string();
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
  return path;
}

void print_cost(const std::string& name, std::size_t sketches, const CandidateCost& cost) {
  std::printf("%s: %zu sketches, %.1f instructions, %d candidates, %d rejected\n ", name.c_str(), sketches,
              cost.instructions, cost.candidates, cost.rejected);
  double sum = 0;
  for (const Cost& stage : cost.stages) {
    std::printf(" %s %.1f", stage.name.c_str(), stage.microseconds);
    sum += stage.microseconds;
  }
  std::printf("  together %.1f us\n ", sum);
  for (const Cost& kind : cost.instruction_kinds) {
    if (kind.microseconds >= 0.2) std::printf(" %s %.1f (%.0fx)", kind.name.c_str(), kind.microseconds, kind.times);
  }
  std::printf("\n");
}

void print_costs(const LoadedList& list, const Options& options, Database& database) {
  Quiet quiet;
  for (const TuneTask& task : list.tasks) {
    TaskState state;
    open_task(state, task, list.library, {.trials = 0, .rules = list.list.rules.value}, database, quiet);
    if (!state.progress.problem.empty()) continue;
    print_cost(task.name, state.space.space.sketches.size(), candidate_cost(state.space, options.count, options.seed));
  }
}

struct Row {
  const char* name;
  double seconds;
};

void print_rows(const char* head, const std::vector<Row>& rows, double whole, i64 candidates) {
  std::printf("%-44s %9s %7s %13s\n", head, "seconds", "share", "us/candidate");
  for (const Row& row : rows) {
    std::printf("  %-42s %9.3f %6.1f%% %13.2f\n", row.name, row.seconds, 100 * row.seconds / whole,
                row.seconds * 1e6 / static_cast<double>(std::max<i64>(1, candidates)));
  }
}

void print_tune(const TuneResult& result) {
  const TuneProfile& p = result.profile;
  std::printf("\n%zu tasks, %lld trials in %.2f s (%.1f a second)\n", result.tasks.size(),
              static_cast<long long>(result.measured), result.seconds, result.trials_per_second());
  double proposals = static_cast<double>(std::max<i64>(1, result.candidates + result.repeats + result.rejected));
  std::printf(
      "search: %lld different candidates in %.2f s, %.0f a second; of %.0f proposals %.1f%% repeats, %.1f%% "
      "rejected\n\n",
      static_cast<long long>(result.candidates), result.search_seconds, result.candidates_per_second(), proposals,
      100 * static_cast<double>(result.repeats) / proposals, 100 * static_cast<double>(result.rejected) / proposals);
  double known = p.draw + p.replay + p.postprocess + p.hash + p.draft + p.features + p.model;
  print_rows("search",
             {{"draw and mutate", p.draw},
              {"replay", p.replay},
              {"postprocess", p.postprocess},
              {"hash", p.hash},
              {"draft score", p.draft},
              {"features, with the draft score", p.features},
              {"model", p.model},
              {"look up, sort, pick", result.search_seconds - known}},
             result.search_seconds, result.candidates);
  print_rows("the same thread",
             {{"build the space", p.space}, {"train the model", p.training}, {"wait for measuring", p.waiting}},
             result.seconds, result.candidates);
  print_rows("beside it",
             {{"lower", p.lower}, {"compile (JIT)", p.compile}, {"run, check, time", p.measure}, {"store", p.database}},
             result.seconds, result.candidates);
}

int run_tune(const LoadedList& list, const Options& options, Database& database) {
  WorkerStart worker;
  if (options.synthetic)
    worker.measurer = std::make_unique<SimulatedMeasurer>();
  else
    worker = start_worker();
  if (!worker.measurer) return std::fprintf(stderr, "%s\n", worker.error.c_str()), 1;
  Quiet quiet;
  std::atomic<bool> stop{false};
  TuneOptions tuning{.trials = options.trials,
                     .seed = options.seed,
                     .threads = options.threads,
                     .rules = list.list.rules.value,
                     .cost_model = options.model};
  TuneResult result = tune(list.tasks, list.library, tuning, database, worker.measurer.get(), quiet, stop);
  print_tune(result);
  for (const TaskProgress& task : result.tasks) {
    std::printf("%s: best %.2f us after %lld trials\n", task.name.c_str(), task.best_seconds * 1e6,
                static_cast<long long>(task.trials));
  }
  return 0;
}

int run(const Options& options) {
  std::optional<LoadedList> list = bench::list_of(options.list, options.rules);
  if (!list) return 2;
  if (!options.task.empty())
    std::erase_if(list->tasks, [&](const TuneTask& task) { return task.name != options.task; });
  auto database = Database::open(temporary_database(), DatabaseMode::Write);
  if (!database) return std::fprintf(stderr, "%s\n", database.error().c_str()), 1;
  if (options.count > 0) print_costs(*list, options, *database);
  return options.no_tune ? 0 : run_tune(*list, options, *database);
}

}  // namespace
}  // namespace tw::bench

int main(int count, char** words) {
  tw::bench::Options options;
  CLI::App app("Where the time of a tune goes.");
  app.add_option("LIST", options.list, "the task list, YAML")->required();
  app.add_option("--trials", options.trials, "for each task");
  app.add_option("--seed", options.seed, "of the search");
  app.add_option("--threads", options.threads, "of the search");
  app.add_option("--model", options.model, "cost model: " + tw::join(tw::model_names(), ", "));
  app.add_option("--rules", options.rules, "a rule set instead of the list's");
  app.add_option("--task", options.task, "only this task");
  app.add_option("--count", options.count, "candidates whose cost is measured, for each task");
  app.add_flag("--no-tune", options.no_tune, "the cost of candidates only");
  app.add_flag("--synthetic", options.synthetic, "compile kernels, but do not run them");
  CLI11_PARSE(app, count, words);
  return tw::bench::run(options);
}
