#include "bench/experiments/run_experiment.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <span>

#include "bench/experiments/in_turn.h"
#include "bench/experiments/report.h"
#include "bench/list_of.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/measure/machine_probe.h"

namespace tw::bench {
namespace {

namespace fs = std::filesystem;

// The programs that the runs of a task found, and their traces; "" for the untuned one, which is the first trial of
// some arms.
std::map<std::string, std::string> found_by(std::span<const Cell> cells) {
  std::map<std::string, std::string> traces;
  for (const Cell& cell : cells) {
    for (const ArmRun& run : cell.runs) {
      for (const FoundProgram& found : {run.first, run.best})
        if (!found.program.empty()) traces[found.program] = found.trace;
    }
  }
  return traces;
}

// How long what a run found takes. Where programs were measured in turn, one without such a time cannot be compared. A
// run that found nothing has failed only if the results of all its trials are known.
Found times_of(const ArmRun& run, const StoredResults::Times& times) {
  auto time_of = [&](const FoundProgram& found, double searched) -> std::optional<double> {
    if (found.program.empty()) return run.unknown > 0 ? std::nullopt : std::optional(kNever);
    if (times.empty()) return searched;
    auto at = times.find(found.program);
    return at == times.end() || at->second.seconds == 0 ? std::nullopt : std::optional(at->second.seconds);
  };
  return {time_of(run.first, best_after(run.seconds, 1)),
          time_of(run.best, best_after(run.seconds, run.seconds.size()))};
}

// What is to be measured in turn: what was found, and what has a time by other runs, of other arms or seeds, whose
// times would be void.
std::map<std::string, Contender> contenders_of(const std::map<std::string, std::string>& found,
                                               const StoredResults::Times& before,
                                               const StoredResults::OfTask& searched) {
  std::map<std::string, Contender> out;
  for (const auto& [program, trace] : found) out[program].trace = trace;
  for (const auto& [program, each] : before)
    if (each.seconds > 0 && each.trace) out[program].trace = *each.trace;
  for (auto& [program, contender] : out) {
    auto at = searched.find(program);
    if (at != searched.end() && at->second.ok()) contender.searched = at->second.seconds;
  }
  return out;
}

// False if the times cannot be stored.
bool measure_in_turn(const TuneTask& task, const std::map<std::string, std::string>& found, StoredResults& results,
                     Measurer& measurer) {
  TaskKey key = key_of(task);
  const StoredResults::Times before = results.in_turn(key.workload, key.target);
  const auto contenders = contenders_of(found, before, results.of(key.workload, key.target));
  const std::map<std::string, double> seconds = times_in_turn(task, contenders, 5, measurer);
  if (seconds.empty()) return true;
  StoredResults::Times times;
  // What has no time is not tried again, unless nothing has one.
  for (const auto& [program, contender] : contenders) {
    auto at = seconds.find(program);
    times[program] = {at == seconds.end() ? 0 : at->second, contender.trace};
  }
  int lost = 0;
  for (const auto& [program, each] : before) {
    if (each.seconds == 0)
      times.try_emplace(program, each);
    else
      lost += !times.contains(program);
  }
  if (lost > 0)
    say(cat(task.name, ": the times in turn of ", lost,
            " programs that other arms or seeds found are void, and their traces are not stored: a run of these "
            "measures them again"));
  return results.set_in_turn(key.workload, key.target, times);
}

// Measures in turn what the runs of a task found. False if the times cannot be stored.
bool compare_found(const TuneTask& task, std::span<Cell> cells, StoredResults& results, Measurer* measurer) {
  TaskKey key = key_of(task);
  const std::map<std::string, std::string> found = found_by(cells);
  const StoredResults::Times& times = results.in_turn(key.workload, key.target);
  bool is_known = std::ranges::all_of(found, [&](const auto& each) { return times.contains(each.first); });
  if (measurer && !is_known && !measure_in_turn(task, found, results, *measurer)) return false;
  for (Cell& cell : cells) {
    cell.is_in_turn = !times.empty();
    for (const ArmRun& run : cell.runs) cell.found.push_back(times_of(run, times));
  }
  return true;
}

// A replay takes the target of the stored results where the list's has none.
void take_stored_targets(LoadedList& list, StoredResults& results) {
  for (TuneTask& task : list.tasks) {
    const TaskKey key = key_of(task);
    if (!results.of(key.workload, key.target).empty()) continue;
    std::optional<std::string> stored = results.only_target_of(key.workload);
    Source text{"target", stored.value_or("")};
    Diagnostics ignored(text);
    std::optional<Target> target = stored ? parse_target(text.text, 0, ignored) : std::nullopt;
    if (!target) continue;
    say(cat(task.name, ": the results are of `", *stored, "`"));
    task.target = *target;
  }
}

bool measure_rates(StoredResults& results) {
  if (results.has_rates()) return true;
  std::optional<MachineRates> rates =
      parse_rates(to_text(rates_of(measure_machine(usable_threads()), usable_threads())));
  return results.set_rates(rates.value_or(MachineRates()));
}

// Changes of an experiment that the options want. False after a message.
bool choose(Experiment& experiment, const ExperimentOptions& options) {
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

// The searches of one experiment, task by task.
class Searches {
 public:
  Searches(const Experiment& experiment, const std::vector<std::string>& arms, const Surroundings& with)
      : experiment_(experiment), arms_(arms), with_(with) {}

  // All arms and seeds of a task. False if its times cannot be stored.
  bool run(const TuneTask& task) {
    std::size_t begin = cells_.size();
    for (const Arm& arm : experiment_.arms) {
      if (is_chosen(arms_, arm.name)) run(task, arm);
    }
    return with_.stop || compare_found(task, std::span(cells_).subspan(begin), with_.results, with_.measurer);
  }

  const std::vector<Cell>& cells() const { return cells_; }
  int unknown() const { return unknown_; }    // trials without a stored result
  int problems() const { return problems_; }  // runs that ended early, or not at all

 private:
  void run(const TuneTask& task, const Arm& arm) {
    Cell& cell = cells_.emplace_back(Cell{.task = &task, .flops = count_flops(task.program.program), .arm = &arm});
    i64 trials = arm.trials > 0 ? arm.trials : experiment_.trials;
    for (int seed = 0; seed < experiment_.seeds && !with_.stop; ++seed) {
      const std::optional<std::string>& model = learned(arm, trials, seed);
      if (!model) {
        ++problems_, ++cell.ended_early;
        continue;
      }
      ArmRun run = run_arm(with_, task, arm, trials, static_cast<u64>(seed), *model);
      unknown_ += run.unknown, problems_ += !run.problem.empty();
      say_run(cell, run);
      if (run.has_ended_early)
        ++cell.ended_early;
      else
        cell.runs.push_back(std::move(run));
    }
  }

  static void say_run(const Cell& cell, const ArmRun& run) {
    double best = gflops(cell, best_after(run.seconds, run.seconds.size()));
    std::fprintf(stderr, "%s, %s, seed %d: %.1f GFLOP/s after %zu trials%s%s%s\n", cell.task->name.c_str(),
                 cell.arm->name.c_str(), static_cast<int>(run.seed), best, run.seconds.size(),
                 run.took ? cat(", ", std::llround(run.took->tuning), " s").c_str() : "",
                 run.problem.empty() ? "" : "; ", run.problem.c_str());
  }

  // The model of an arm that learns from other tasks, "" of one that does not; nullopt after a message, once.
  const std::optional<std::string>& learned(const Arm& arm, i64 trials, int seed) {
    auto [model, is_new] = learned_.try_emplace({&arm, seed}, "");
    if (!is_new || arm.learns_from.empty()) return model->second;
    const Arm& tuner = arm.learns_by.empty() ? arm : *find_arm(experiment_, arm.learns_by);
    std::vector<TuneTask> sources;
    for (const TuneTask* task : tasks_of(with_.list, arm.learns_from)) sources.push_back(*task);
    std::string problem;
    model->second = learned_model(with_, sources, arm, tuner, trials, static_cast<u64>(seed), problem);
    if (!problem.empty()) {
      model->second.reset();
      say(cat(arm.name, ", seed ", seed, ", learning from others: ", problem));
    }
    return model->second;
  }

  const Experiment& experiment_;
  const std::vector<std::string>& arms_;  // that are wanted
  const Surroundings& with_;
  std::map<std::pair<const Arm*, int>, std::optional<std::string>> learned_;  // by arm and seed
  std::vector<Cell> cells_;
  int unknown_ = 0, problems_ = 0;
};

}  // namespace

ExitCode run_experiment(const std::string& file, const ExperimentOptions& options, Measurer* measurer,
                        const std::atomic<bool>& stop) {
  std::string messages;
  std::optional<Experiment> experiment = load_experiment(file, messages);
  if (!experiment) return say(messages), Usage;
  std::optional<LoadedList> list = list_of(experiment->list);
  if (!list || !choose(*experiment, options)) return Usage;
  if (std::string wrong = problems_of(*experiment, *list); !wrong.empty()) return say(cat(file, ": ", wrong)), Usage;
  if (std::string missing = missing_models(*experiment); !missing.empty())
    return say(cat(file, ": ", missing)), Environment;
  std::string base = (fs::path(options.output) / fs::path(file).stem()).string();
  std::string stored = options.results.empty() ? base + ".results.csv" : options.results;
  if (measurer && stored.ends_with(".gz"))
    return say(cat(stored,
                   " is compressed, and new results are added to the file: unpack it (gzip -d), or measure nothing "
                   "(--replay-measurements)")),
           Usage;
  std::unique_ptr<StoredResults> results = StoredResults::open(stored, messages);
  if (!results) return say(messages), Usage;
  if (!measurer && results->size() == 0)
    return say(cat(stored, " has no results to replay; --results names another file")), Usage;
  if (measurer && !measure_rates(*results)) return say(cat("cannot write ", stored)), Environment;
  if (!measurer) take_stored_targets(*list, *results);
  Surroundings with{*list, *results, measurer, base + ".scratch.db", stop};
  Searches searches(*experiment, options.arms, with);
  bool is_stored = true;
  for (const TuneTask* task : tasks_of(*list, experiment->tasks))
    is_stored = is_stored && (stop || searches.run(*task));
  if (stop) return say("interrupted; what was measured is kept, and the same command goes on"), Interrupted;
  std::printf("%s (%zu results in %s)\n", experiment->title.c_str(), results->size(), stored.c_str());
  const std::string not_compared = print_arms(searches.cells(), experiment->arms);
  bool is_written = write_file(base + ".curves.csv", curves_csv(searches.cells())) &&
                    write_file(base + ".summary.csv", summary_csv(searches.cells()));
  if (!is_stored) say(cat("cannot write ", stored));
  if (!is_written || !is_stored) return Environment;
  if (searches.unknown() > 0)
    say(cat(searches.unknown(),
            " trials have no stored result and count as failed: the figures are not those of a whole run"));
  if (!not_compared.empty())
    say(cat(not_compared, "the means are over the tasks on which all arms have something to compare"));
  return searches.unknown() + searches.problems() > 0 || !not_compared.empty() ? NotReached : Reached;
}

}  // namespace tw::bench
