// Experiments: searches of several arms and seeds, compared. For each experiment FILE.yaml the folder gets
//   FILE.curves.csv   a line for each trial: the best so far
//   FILE.summary.csv  a line for each task and arm: medians over the seeds, and their range
// and plot.py draws the first. Times of the summary are those of the best programs of all arms and seeds, which are
// measured in turn at the end. Programs whose results are in FILE.results.csv are not measured again; with
// --replay-measurements nothing is measured, and what is not there counts as failed.
//   tracewright-experiments bench/experiments/models.yaml --output out [--trials 64] [--seeds 2] [--tasks c6]
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "bench/experiments/curves.h"
#include "bench/experiments/in_turn.h"
#include "bench/experiments/run_arm.h"
#include "bench/list_of.h"
#include "dsl/base/quantile.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/measure/machine_probe.h"

namespace tw::bench {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> files, tasks, arms;
  std::string output = ".", results;
  i64 trials = 0;
  int seeds = 0;
  bool replay = false;
};

std::atomic<bool> stop_wanted{false};

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
  std::vector<Found> found;  // of each run
};

std::vector<const TuneTask*> tasks_of(const LoadedList& list, const std::vector<std::string>& names) {
  std::vector<const TuneTask*> tasks;
  for (const TuneTask& task : list.tasks) {
    if (names.empty() || std::ranges::find(names, task.name) != names.end()) tasks.push_back(&task);
  }
  return tasks;
}

// Measures in turn what the runs of a task found. False if the times cannot be stored.
bool compare_found(const TuneTask& task, std::span<Cell> cells, StoredResults& results, Measurer* measurer) {
  TaskKey key = key_of(task);
  std::map<std::string, std::string> traces;
  for (const Cell& cell : cells) {
    for (const ArmRun& run : cell.runs) {
      for (const FoundProgram& found : {run.first, run.best})
        if (!found.trace.empty()) traces[found.program] = found.trace;
    }
  }
  const StoredResults::Times& times = results.in_turn(key.workload, key.target);
  bool is_known = std::ranges::all_of(traces, [&](const auto& each) { return times.contains(each.first); });
  if (measurer && !is_known &&
      !results.set_in_turn(key.workload, key.target, times_in_turn(task, traces, 5, *measurer)))
    return false;
  for (Cell& cell : cells) {
    for (const ArmRun& run : cell.runs) {
      auto time_of = [&](const FoundProgram& found, std::size_t trials) {
        auto at = times.find(found.program);
        return at == times.end() ? best_after(run.seconds, trials) : at->second;
      };
      cell.found.push_back({time_of(run.first, 1), time_of(run.best, run.seconds.size())});
    }
  }
  return true;
}

// The fastest that any run of a task found, by the times of the searches and by those that were measured in turn.
struct Fastest {
  double searched = kNever, in_turn = kNever;
};
Fastest fastest(const std::vector<Cell>& cells, const TuneTask& task) {
  Fastest out;
  for (const Cell& cell : cells) {
    if (cell.task != &task) continue;
    for (const ArmRun& run : cell.runs)
      out.searched = std::min(out.searched, best_after(run.seconds, run.seconds.size()));
    for (const Found& found : cell.found) out.in_turn = std::min(out.in_turn, found.best);
  }
  return out;
}

double gflops(const Cell& cell, double seconds) { return std::isfinite(seconds) ? cell.flops / seconds * 1e-9 : 0; }

std::string number(double value, int digits = 3) {
  if (!std::isfinite(value)) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string curves_csv(const std::vector<Cell>& cells) {
  std::string out = "task,arm,seed,trial,gflops\n";
  for (const Cell& cell : cells) {
    for (std::size_t seed = 0; seed < cell.runs.size(); ++seed) {
      double best = kNever;
      for (std::size_t i = 0; i < cell.runs[seed].seconds.size(); ++i) {
        best = std::min(best, cell.runs[seed].seconds[i]);
        out += cat(cell.task->name, ",", cell.arm->name, ",", seed, ",", i + 1, ",", number(gflops(cell, best)), "\n");
      }
    }
  }
  return out;
}

// What the runs of a cell say together.
struct Summary {
  Spread best, first, to_95;  // GFLOP/s after all trials and after the first; trials to 95 % of the fastest of the task
  double of_fastest = 0;      // the median of the best, a part of the fastest of the task
  double wall = 0, search = 0, training = 0;  // medians, seconds
  int unknown = 0;
};

Summary summarize(const Cell& cell, const Fastest& fastest) {
  std::vector<double> best, first, to_95, wall, search, training;
  Summary out;
  for (std::size_t i = 0; i < cell.runs.size(); ++i) {
    const ArmRun& run = cell.runs[i];
    best.push_back(gflops(cell, cell.found[i].best));
    first.push_back(gflops(cell, cell.found[i].first));
    to_95.push_back(trials_to(run.seconds, fastest.searched / 0.95));
    wall.push_back(run.wall_seconds), search.push_back(run.search_seconds), training.push_back(run.training_seconds);
    out.unknown += run.unknown;
  }
  out.best = spread(best), out.first = spread(first), out.to_95 = spread(to_95);
  out.of_fastest = out.best.median / gflops(cell, fastest.in_turn);
  out.wall = median(wall), out.search = median(search), out.training = median(training);
  return out;
}

std::string summary_csv(const std::vector<Cell>& cells, const std::vector<Summary>& summaries) {
  std::string out =
      "task,arm,seeds,trials,gflops,gflops_least,gflops_most,of_fastest,first_gflops,trials_to_95,trials_to_95_least,"
      "trials_to_95_most,not_recorded\n";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    const Summary& s = summaries[i];
    std::size_t trials = 0;
    for (const ArmRun& run : cell.runs) trials = std::max(trials, run.seconds.size());
    out += cat(cell.task->name, ",", cell.arm->name, ",", cell.runs.size(), ",", trials, ",", number(s.best.median),
               ",", number(s.best.least), ",", number(s.best.most), ",", number(s.of_fastest, 4), ",",
               number(s.first.median), ",", number(s.to_95.median, 0), ",", number(s.to_95.least, 0), ",",
               number(s.to_95.most, 0), ",", s.unknown, "\n");
  }
  return out;
}

// For each arm the geometric mean over the tasks.
void print_arms(const std::vector<Cell>& cells, const std::vector<Summary>& summaries, const Experiment& experiment) {
  std::vector<std::vector<std::string>> rows;
  for (const Arm& arm : experiment.arms) {
    double of_fastest = 0, first = 0, wall = 0, search = 0, training = 0;
    int count = 0, unknown = 0;
    std::vector<double> to_95;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const Summary& s = summaries[i];
      if (cells[i].arm != &arm || s.of_fastest == 0) continue;
      of_fastest += std::log(s.of_fastest), ++count;
      first += s.first.median > 0 ? std::log(s.first.median / s.best.median) : std::log(1e-3);
      wall += s.wall, search += s.search, training += s.training, unknown += s.unknown;
      to_95.push_back(s.to_95.median);
    }
    if (count == 0) continue;
    double middle = median(to_95);
    rows.push_back({arm.name, std::to_string(count), number(100 * std::exp(of_fastest / count), 1),
                    number(100 * std::exp(first / count), 1), std::isfinite(middle) ? number(middle, 0) : "never",
                    number(wall, 1), number(search, 1), number(training, 1), std::to_string(unknown)});
  }
  print_table({"arm", "tasks", "% of fastest", "first trial, % of own best", "trials to 95 %", "seconds", "search",
               "training", "not recorded"},
              rows);
}

bool measure_rates(StoredResults& results) {
  if (results.has_rates()) return true;
  std::optional<MachineRates> rates =
      parse_rates(to_text(rates_of(measure_machine(usable_threads()), usable_threads())));
  return results.set_rates(rates.value_or(MachineRates()));
}

// The model of an arm that learns from other tasks; nullopt after a message.
std::optional<std::string> learn_from_others(const Surroundings& with, const Arm& arm, const Arm& tuner, i64 trials,
                                             int seed) {
  std::vector<TuneTask> sources;
  for (const TuneTask* task : tasks_of(with.list, arm.learns_from)) sources.push_back(*task);
  std::string problem;
  std::string model = learned_model(with, sources, arm, tuner, trials, static_cast<u64>(seed), problem);
  if (problem.empty()) return model;
  say(cat(arm.name, ", seed ", seed, ", learning from others: ", problem));
  return std::nullopt;
}

bool is_chosen(const Options& options, const Arm& arm) {
  return options.arms.empty() || std::ranges::find(options.arms, arm.name) != options.arms.end();
}

// Changes of an experiment that the options want. False after a message.
bool choose(Experiment& experiment, const Options& options) {
  if (!options.tasks.empty()) experiment.tasks = options.tasks;
  for (Arm& arm : experiment.arms)
    if (options.trials > 0) arm.trials = options.trials;
  if (options.seeds > 0) experiment.seeds = options.seeds;
  std::vector<std::string> names;
  for (const Arm& arm : experiment.arms) names.push_back(arm.name);
  for (const std::string& arm : options.arms) {
    if (std::ranges::find(names, arm) == names.end())
      return say(cat("--arms: no arm `", arm, "`; there are ", join(names, ", "))), false;
  }
  return true;
}

// The exit code.
int run_experiment(const std::string& file, const Options& options, Measurer* measurer) {
  constexpr int kReached = 0, kNotReached = 1, kUsage = 2, kMachine = 3, kInterrupted = 130;
  std::string messages;
  std::optional<Experiment> experiment = load_experiment(file, messages);
  if (!experiment) return say(messages), kUsage;
  std::optional<LoadedList> list = list_of(experiment->list);
  if (!list || !choose(*experiment, options)) return kUsage;
  if (std::string wrong = problems_of(*experiment, *list); !wrong.empty()) return say(cat(file, ": ", wrong)), kUsage;
  std::vector<const TuneTask*> tasks = tasks_of(*list, experiment->tasks);
  fs::path base = fs::path(options.output) / fs::path(file).stem();
  std::string stored = options.results.empty() ? base.string() + ".results.csv" : options.results;
  std::unique_ptr<StoredResults> results = StoredResults::open(stored, messages);
  if (!results) return say(messages), kUsage;
  if (!measurer && results->size() == 0)
    return say(cat(stored, " has no results to replay; --results names another file")), kUsage;
  if (measurer && !measure_rates(*results)) return say(cat("cannot write ", stored)), kMachine;
  int unknown = 0, problems = 0;
  Surroundings with{*list, *results, measurer, base.string() + ".scratch.db", stop_wanted};
  std::map<std::pair<const Arm*, int>, std::optional<std::string>> learned;  // models, by arm and seed
  std::vector<Cell> cells;
  for (const TuneTask* task : tasks) {
    for (const Arm& arm : experiment->arms) {
      if (!is_chosen(options, arm)) continue;
      Cell& cell = cells.emplace_back(Cell{task, count_flops(task->program.program), &arm, {}, {}});
      i64 trials = arm.trials > 0 ? arm.trials : experiment->trials;
      const Arm* tuner = arm.learns_by.empty() ? &arm : find_arm(*experiment, arm.learns_by);
      for (int seed = 0; seed < experiment->seeds && !stop_wanted; ++seed) {
        auto [model, is_new] = learned.try_emplace({&arm, seed}, "");
        if (is_new && !arm.learns_from.empty()) model->second = learn_from_others(with, arm, *tuner, trials, seed);
        if (!model->second) return stop_wanted ? kInterrupted : kNotReached;
        ArmRun run = run_arm(with, *task, arm, trials, static_cast<u64>(seed), *model->second);
        unknown += run.unknown, problems += run.seconds.empty();
        std::fprintf(stderr, "%s, %s, seed %d: %.1f GFLOP/s after %zu trials, %.0f s%s%s\n", task->name.c_str(),
                     arm.name.c_str(), seed, gflops(cell, best_after(run.seconds, run.seconds.size())),
                     run.seconds.size(), run.wall_seconds, run.problem.empty() ? "" : "; ", run.problem.c_str());
        cell.runs.push_back(std::move(run));
      }
    }
    auto own = std::ranges::find(cells, task, &Cell::task);
    if (!stop_wanted && !compare_found(*task, {own, cells.end()}, *results, measurer))
      return say(cat("cannot write ", stored)), kMachine;
  }
  if (stop_wanted) return say("interrupted; what was measured is kept, and the same command goes on"), kInterrupted;
  std::vector<Summary> summaries;
  for (const Cell& cell : cells) summaries.push_back(summarize(cell, fastest(cells, *cell.task)));
  std::printf("%s (%zu results in %s)\n", experiment->title.c_str(), results->size(), stored.c_str());
  print_arms(cells, summaries, *experiment);
  if (!write_file(base.string() + ".curves.csv", curves_csv(cells)) ||
      !write_file(base.string() + ".summary.csv", summary_csv(cells, summaries)))
    return kMachine;
  if (unknown > 0)
    say(cat(unknown, " trials have no stored result and count as failed: the figures are not those of a whole run"));
  return unknown + problems > 0 ? kNotReached : kReached;
}

void on_interrupt(int) { stop_wanted = true; }

}  // namespace
}  // namespace tw::bench

int main(int count, char** words) {
  using namespace tw;
  bench::Options options;
  CLI::App app("Searches of several arms and seeds, compared.");
  app.add_option("FILE", options.files, "experiments, YAML")->required();
  app.add_option("--output", options.output, "the folder for results, curves and summaries");
  app.add_option("--results", options.results, "stored results, in place of those in the folder");
  app.add_option("--tasks", options.tasks, "only these")->delimiter(',');
  app.add_option("--arms", options.arms, "only these")->delimiter(',');
  app.add_option("--trials", options.trials, "of each arm, instead of what the experiment says")
      ->check(CLI::PositiveNumber);
  app.add_option("--seeds", options.seeds, "how many")->check(CLI::PositiveNumber);
  app.add_flag("--replay-measurements", options.replay, "measure nothing: take all results from those that are stored");
  CLI11_PARSE(app, count, words);
  std::error_code ignored;
  std::filesystem::create_directories(options.output, ignored);
  if (!std::filesystem::is_directory(options.output)) return say(cat(options.output, " is no folder")), 2;
  signal(SIGINT, bench::on_interrupt);
  WorkerStart worker;
  if (!options.replay) worker = start_worker();
  if (!options.replay && !worker.measurer) return say(worker.error), 3;
  for (const std::string& file : options.files) {
    if (int code = bench::run_experiment(file, options, worker.measurer.get()); code != 0) return code;
  }
  return 0;
}
