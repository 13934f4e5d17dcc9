// tracewright tune: from a task list to tuned kernels in a database.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/compile_only.h"
#include "cli/interrupt.h"
#include "cli/join_fleet.h"
#include "cli/model_file.h"
#include "cli/open_list.h"
#include "cli/progress.h"
#include "cli/stored.h"
#include "cli/tune_checks.h"
#include "cli/tuned_models.h"
#include "costmodel/features.h"
#include "costmodel/make_model.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/measure/machine_probe.h"
#include "runtime/measure/machine_roofs.h"
#include "runtime/measure/measurer.h"
#include "runtime/store/postgres_address.h"
#include "runtime/store/server_wait.h"
#include "sampler/search/fleet_runner.h"
#include "sampler/search/trial.h"
#include "sampler/tasks/list_search.h"

namespace tw::cli {
namespace {

struct Options {
  std::string file, database, rules, strategy, model, objective, model_file, transfer, output;
  std::string measure_on;  // "" = see where_to_measure()
  i64 more = 0, trials = 0, total_trials = 0;
  std::optional<double> min_gain;
  double seconds = 0;
  std::vector<std::string> shapes, rewrites;
  std::string precision;
  int threads = 0;
  std::optional<u64> seed;
  int finalists = 8;
  bool dry_run = false, replay_measurements = false, compile_only = false, json = false;
};

// Trials of this machine that the database holds already, per task; nothing if there is no database yet.
std::optional<std::vector<i64>> stored_trials(const LoadedList& list, const std::string& path) {
  std::vector<i64> counts(list.tasks.size(), 0);
  if (!is_database_address(path) && access(path.c_str(), F_OK) != 0) return counts;
  std::optional<Database> database = open_database(path, DatabaseMode::Read);
  if (!database) return std::nullopt;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    TaskKey key = key_of(list.tasks[i]);
    std::optional<i64> count =
        checked(database->trials(key.workload, key.target, own_machine(key.target, list.tasks[i].timing)));
    if (!count) return std::nullopt;
    counts[i] = *count;
  }
  return counts;
}

// ---- dry run

int dry_run(const LoadedList& list, const std::vector<i64>& stored, const TuneOptions& tuning, bool is_json) {
  constexpr double usual_rate = 20;  // trials a second for kernels below 1 ms
  boost::json::array tasks;
  std::vector<std::vector<std::string>> rows;
  i64 missing = 0, made = 0;
  for (std::size_t i = 0; i < list.tasks.size(); ++i) {
    const TuneTask& task = list.tasks[i];
    SpaceSummary space = summarize_space(task, list.library, tuning.rules);
    std::fputs(space.errors.c_str(), stderr);  // of rules that are left out
    i64 wanted = tuning.more > 0 ? tuning.more : std::max<i64>(0, tuning.trials - stored[i]);
    missing += wanted;
    made += stored[i];
    boost::json::array sketches;
    for (const SpaceSummary::Row& row : space.sketches) {
      boost::json::array rules(row.rules.begin(), row.rules.end());
      sketches.push_back({{"rules", rules}, {"log10_points", row.log10_points}});
      rows.push_back({task.name, fmt::format("10^{:.1f}", row.log10_points), join(row.rules, ", ")});
    }
    if (space.count > static_cast<double>(space.sketches.size()))
      rows.push_back(
          {task.name, "...", fmt::format("and others, about 10^{:.1f} sketches in all", std::log10(space.count))});
    tasks.push_back({{"name", task.name},
                     {"target", to_string(task.target)},
                     {"flops", count_flops(task.program.program)},
                     {"stored", stored[i]},
                     {"to_measure", wanted},
                     {"sketches", sketches}});
  }
  if (tuning.total_trials > 0) missing = std::min(missing, std::max<i64>(0, tuning.total_trials - made));
  double estimate = static_cast<double>(missing) / usual_rate;
  if (tuning.seconds > 0) estimate = std::min(estimate, tuning.seconds);
  if (is_json) {
    print_json({{"tasks", tasks},
                {"trials", missing},
                {"estimated_seconds", estimate},
                {"list", boost::json::parse(to_json(list.list))}});
    return Ok;
  }
  print_table({"task", "points", "sketch: rules that made it"}, rows);
  std::printf("\n%lld trials to measure, about %s minutes at %g trials a second; nothing was started\n",
              static_cast<long long>(missing), show_clock(estimate).c_str(), usual_rate);
  return Ok;
}

// ---- what came of it

// Why a task has no more trials, for people.
std::string ending_of(const TaskProgress& task) {
  switch (task.ended) {
    case Ended::No:
      return "out of time";
    case Ended::Trials:
      return "all its trials";
    case Ended::TotalTrials:
      return "all trials of the list";
    case Ended::Space:
      return "no further candidate";
    case Ended::Bound:
      return fmt::format("{:.0f} % of {}", 100 * task.bound.seconds / task.best_seconds, task.bound.what);
    case Ended::MinGain:
      return fmt::format("{:.1f} % to gain", 100 * task.expected_gain);
    case Ended::Problem:
      break;
  }
  return "a problem";
}

void print_results(const TuneResult& result, i64 faults) {
  std::vector<std::vector<std::string>> rows;
  for (const TaskProgress& task : result.tasks) {
    double gflops = task.best_seconds > 0 ? task.flops / task.best_seconds * 1e-9 : 0;
    rows.push_back({task.name, show_times(task.best_seconds, task.best_cold_seconds), show_number(gflops),
                    show_gain(task.baseline_seconds, task.best_seconds),
                    show_gain(task.zero_trial_seconds, task.best_seconds), std::to_string(task.trials),
                    std::to_string(task.failed),
                    task.ended != Ended::No ? ending_of(task)
                    : result.interrupted    ? "interrupted"
                    : !result.error.empty() ? "an error"
                                            : ending_of(task)});
  }
  print_table({"task", "best", "GFLOP/s", "over untuned", "over zero trials", "trials", "failed", "ended with"}, rows);
  std::printf("\n%lld trials in %s (%.1f a second), %lld candidates (%.0f a second)\n",
              static_cast<long long>(result.measured), show_clock(result.seconds).c_str(), result.trials_per_second(),
              static_cast<long long>(result.candidates), result.candidates_per_second());
  if (faults > 0)
    std::printf("%lld trials could not be measured, by no fault of theirs; a later run may measure them\n",
                static_cast<long long>(faults));
  if (result.same_code > 0)
    std::printf("%lld further candidates had the code of an earlier trial and were not measured\n",
                static_cast<long long>(result.same_code));
}

boost::json::object to_json(const TuneProfile& profile) {
  return {{"space", profile.space},
          {"draw", profile.draw},
          {"replay", profile.replay},
          {"postprocess", profile.postprocess},
          {"hash", profile.hash},
          {"draft", profile.draft},
          {"features", profile.features},
          {"model", profile.model},
          {"first_kernels", profile.first_kernels},
          {"training", profile.training},
          {"waiting", profile.waiting},
          {"lower", profile.lower},
          {"compile", profile.compile},
          {"measure", profile.measure},
          {"database", profile.database},
          {"reference", profile.reference},
          {"measure_buffers", profile.parts.buffers},
          {"measure_start", profile.parts.start},
          {"measure_run", profile.parts.run},
          {"measure_compare", profile.parts.compare},
          {"measure_timing", profile.parts.timing}};
}

boost::json::object to_json(const TuneResult& result, i64 faults) {
  boost::json::array tasks;
  for (const TaskProgress& task : result.tasks) {
    double gflops = task.best_seconds > 0 ? task.flops / task.best_seconds * 1e-9 : 0;
    tasks.push_back(with_cold({{"name", task.name},
                               {"best_us", task.best_seconds * 1e6},
                               {"gflops", gflops},
                               {"baseline_us", task.baseline_seconds * 1e6},
                               {"zero_trial_us", task.zero_trial_seconds * 1e6},
                               {"trials", task.trials},
                               {"failed", task.failed},
                               {"record", task.best_record},
                               {"ended", name_of(task.ended)},
                               {"bound_us", task.bound.seconds * 1e6},
                               {"expected_gain", task.expected_gain},
                               {"problem", task.problem}},
                              task.best_cold_seconds));
  }
  return {{"tasks", tasks},
          {"trials_per_second", result.trials_per_second()},
          {"candidates_per_second", result.candidates_per_second()},
          {"measured", result.measured},
          {"same_code", result.same_code},
          {"candidates", result.candidates},
          {"repeats", result.repeats},
          {"rejected", result.rejected},
          {"seconds", result.seconds},
          {"search_seconds", result.search_seconds},
          {"measurements", result.profile.measurements},
          {"pairs", result.profile.pairs},
          {"faults", faults},
          {"interrupted", result.interrupted},
          {"error", result.error},
          {"profile_seconds", to_json(result.profile)}};
}

std::string outcome_of(const TuneResult& result) {
  if (!result.error.empty()) return "ended by an error: " + result.error;
  return cat(result.interrupted ? "interrupted after " : "finished, ", result.measured, " trials");
}

int exit_code_of(const TuneResult& result) {
  if (!result.error.empty()) return Environment;
  if (result.interrupted) return Interrupted;
  for (const TaskProgress& task : result.tasks) {
    if (task.best_seconds == 0) return TargetMissed;
  }
  return Ok;
}

int run_search(const LoadedList& list, TuneOptions tuning, const std::string& path, const Options& options) {
  const double end = tuning.seconds > 0 ? seconds_now() + tuning.seconds : std::numeric_limits<double>::infinity();
  LongRun long_run({.must_stop = [end] { return stop_wanted || seconds_now() >= end; },
                    .say = [](const std::string& text) { say(text); }});
  std::optional<Database> database = open_database(path, DatabaseMode::Write);
  if (!database) return Environment;
  catch_interrupts();
  WorkerStart worker;
  std::unique_ptr<TunerLink> fleet;
  int no_fleet = Ok;
  if (options.measure_on == kFleet) {
    fleet = join_fleet(list.tasks, path, *database, tuning, no_fleet);
    if (!fleet) return no_fleet;
  }
  bool is_measured_here = !tuning.replay_measurements && !fleet;
  if (is_measured_here) worker = start_worker(worker_options(list.tasks[0].target));
  if (is_measured_here && !worker.measurer) {
    say(cat(worker.error, "\n`tracewright doctor` says what is missing"));
    return Environment;
  }
  std::optional<i64> run = checked(database->begin_run(
      {.command = cat("tune ", options.file), .seed = tuning.seed, .version = TW_VERSION, .host = host_description()}));
  if (!run) return Environment;
  if (!is_device(list.tasks[0].target) && !fleet) {
    std::optional<MachineRates> rates = checked(machine_rates(*database, is_measured_here));
    if (!rates) return Environment;
    tuning.rates = *rates;
    if (is_measured_here && !checked(keep_roofs(*database, *rates))) return Environment;
  }
  Progress progress(tuning.seconds, tuning.total_trials);
  TuneResult result =
      fleet ? tune_on_fleet(list.tasks, list.library, tuning, *database, *fleet, progress, stop_wanted)
            : tune(list.tasks, list.library, tuning, *database, worker.measurer.get(), progress, stop_wanted);
  const i64 faults = fleet ? fleet->faults() : 0;
  progress.finish();
  bool is_noted = checked(database->finish_run(*run, outcome_of(result))).has_value();
  if (std::string notice = database->take_notice(); !notice.empty()) say(notice);
  if (!result.error.empty())
    say(cat(result.error, database->is_in_place() ? "\nwhat was measured before is safe" : ""));
  bool is_written = result.model_bytes.empty() || replace_file(options.model_file, result.model_bytes);
  boost::json::array models;
  if (result.error.empty() && !result.interrupted && worker.measurer)
    models = time_tuned_models(list, *database, tuning.rates);
  if (options.json) {
    boost::json::object all = to_json(result, faults);
    if (!list.models.empty()) all["models"] = models;
    print_json(std::move(all));
  } else {
    print_results(result, faults);
    print_tuned_models(models);
  }
  if (result.interrupted) {
    say(cat("interrupted; everything measured is stored in ", path, "; the same command goes on",
            options.more > 0 ? ", and counts its --more anew" : ""));
  }
  int code = exit_code_of(result);
  return code == Ok && !(is_noted && is_written) ? Environment : code;
}

int search_without_device(const LoadedList& list, const TuneOptions& tuning, const Options& options) {
  for (const TuneTask& task : list.tasks) {
    if (task.target.kind == TargetKind::Cuda) continue;
    return say(cat("--compile-only is for `cuda` targets, but ", task.name, " is for `", to_string(task.target), "`")),
           Usage;
  }
  if (tuning.search != completed({})) {
    say("--compile-only has a search of its own: leave `search`, --strategy and --transfer away");
    return Usage;
  }
  catch_interrupts();
  std::string output =
      options.output.empty() ? std::filesystem::path(options.file).stem().string() + "_finalists" : options.output;
  return compile_only(list, {output, options.finalists, tuning.seed, options.threads, tuning.seconds, options.json},
                      stop_wanted);
}

// Some strategies propose what they do without a model. With --model-file one learns and is written all the same.
void say_unused_model(const Options& options, const SearchChoice& search) {
  bool is_model = !options.model.empty() && options.model != "auto" && options.model != "random";
  bool is_asked = is_model || (!options.objective.empty() && options.objective != "usual");
  bool is_used = plan_of(search).kind->uses_model || !options.model_file.empty();
  if (is_asked && !is_used)
    say(cat("the strategy `", search.strategy, "` asks no cost model, so --model and --objective change nothing"));
}

// What the command line says, else what the list says, else what counts if nothing is said.
std::string first_of(const std::string& flag, const std::string& listed, const std::string& otherwise) {
  return !flag.empty() ? flag : !listed.empty() ? listed : otherwise;
}

TuneOptions tuning_of(const Options& options, const TaskList& given) {
  i64 total = options.total_trials > 0                 ? options.total_trials
              : options.trials > 0 || options.more > 0 ? 0
                                                       : given.total_trials.value;
  bool has_total_alone = total > 0 && options.trials == 0 && !given.trials.given;
  return {
      .trials = options.trials > 0 ? options.trials
                : has_total_alone  ? total
                                   : given.trials.value,
      .total_trials = total,
      .min_gain = options.min_gain.value_or(given.min_gain.value),
      .more = options.more,
      .seconds = options.seconds > 0 ? options.seconds : given.seconds.value,
      .seed = options.seed.value_or(given.seed.value),
      .threads = options.threads,
      .rules = given.rules.value,
      .search = choice_of(given.search),
      .cost_model = first_of(options.model, given.search.model.value, model_names()[0]),
      .objective = *parse_objective(first_of(options.objective, given.search.objective.value, objective_names()[0])),
      .replay_measurements = options.replay_measurements};
}

// False after a message: what the command line says of the search cannot be done.
bool are_right(const Options& options) {
  if (options.trials > 0 && options.more > 0)
    return say("--trials says how many there are to be, and --more how many beyond those that are stored; give one"),
           false;
  return (options.model.empty() || is_model_name("--model", options.model)) &&
         (options.objective.empty() || check_objective(options.objective));
}

// What the file of --model-file holds is what the cost model begins with. False after a message.
bool take_model_file(TuneOptions& tuning, const std::string& path) {
  std::optional<std::string> model = read_model_file(
      path, tuning.cost_model, {.objective = tuning.objective, .models = plan_of(tuning.search).models});
  if (!model || (!path.empty() && !may_become_model_file(path))) return false;
  tuning.model_bytes = std::move(*model), tuning.keep_model = !path.empty();
  return true;
}

int tune_list(Options options) {
  if (!are_right(options)) return Usage;
  std::optional<LoadedList> list =
      open_list(options.file, options.rules, options.strategy, options.shapes, options.rewrites, options.precision);
  if (!list) return Usage;
  std::string path = options.database.empty() ? list->list.database.value : options.database;
  if (options.measure_on.empty())
    options.measure_on =
        options.replay_measurements || options.compile_only ? kHere : where_to_measure(list->tasks, path);
  if (!check_measure_on(options.measure_on, path, options.replay_measurements)) return Usage;
  TuneOptions tuning = tuning_of(options, list->list);
  if (!take_model_file(tuning, options.model_file)) return Usage;
  if (!options.transfer.empty() && !choose_transfer(tuning.search, options.transfer)) return Usage;
  say_unused_model(options, tuning.search);
  if (options.compile_only && !options.dry_run) return search_without_device(*list, tuning, options);
  bool is_here = options.measure_on == kHere;
  if (is_here && !have_one_worker(*list)) return Usage;
  if (is_here && !options.replay_measurements && !fits_in_memory(*list)) return Usage;
  std::optional<std::string> global = global_model_of(tuning, !options.transfer.empty(), *list);
  if (!global || !can_be_searched(*list, tuning)) return Usage;
  tuning.global_model = std::move(*global);
  if (options.dry_run) {
    std::optional<std::vector<i64>> stored =
        options.compile_only ? std::vector<i64>(list->tasks.size()) : stored_trials(*list, path);
    return stored ? dry_run(*list, *stored, tuning, options.json) : Environment;
  }
  if (is_here && !options.replay_measurements && !have_device(list->tasks[0].target)) return Environment;
  for (const TuneTask& task : list->tasks) {
    std::string why = is_here && !options.replay_measurements ? why_not_this_machine(task) : "";
    if (!why.empty()) return say(cat(why, "; --measure-on fleet has it measured there")), Usage;
  }
  return run_search(*list, tuning, path, options);
}

}  // namespace

int run_tune(int count, char** words) {
  Options options;
  App app("tune",
          "Search fast kernels for the tasks of a list and store every trial. A second run "
          "goes on where the first one stopped and\n"
          "measures nothing twice. Workload and module files are found beside the list; the "
          "database is made in the current folder.",
          "examples:\n  tracewright tune examples/quickstart.yaml --database quickstart.db\n"
          "  tracewright tune examples/gemm.yaml --dry-run\n  tracewright tune "
          "examples/gemm.yaml --more 200\n  tracewright tune resnet18.onnx --seconds 300");
  app.add_option("FILE", options.file, "the task list, YAML; or a model, ONNX").required();
  app.add_option("--shape", options.shapes, "NAME=EXTENT,...: the shape of an input that a model leaves open");
  app.add_option("--rewrites", options.rewrites,
                 "a file of rewritings of graphs (docs/models.md), tried on models before those of the list and the "
                 "built-in ones, and of operators");
  app.add_option("--precision", options.precision, "of the kernels of a model: bf16 or f16, as for `compile`");
  app.add_option("--database", options.database, "the database, instead of the list's");
  app.add_option("--measure-on", options.measure_on,
                 "`here`, or `fleet`: the machines that `tracewright measure` lends to the database. Default: here, if "
                 "all tasks can be measured here");
  app.add_option("--trials", options.trials, "trials for each task, those of earlier runs included")
      .range(1, 1000000000);
  app.add_option("--total-trials", options.total_trials,
                 "trials of all tasks together, those of earlier runs included; tasks that gain more get more of them")
      .range(1, 1000000000);
  app.add_option("--min-gain", options.min_gain,
                 "a task ends when another batch is expected to lower its time by a smaller part; 0 = never early")
      .range(0.0, 0.999);
  app.add_option("--more", options.more, "trials for each task beyond those that are stored").range(1, 1000000000);
  app.add_option("--seconds", options.seconds, "limit of this run").positive();
  app.add_option("--threads", options.threads, "threads of the search; 0 = what this process may use").range(0, 1024);
  app.add_option("--seed", options.seed, "of the search");
  app.add_option("--model", options.model, "cost model, instead of the list's `search`: " + join(model_names(), ", "));
  app.add_option("--objective", options.objective,
                 cat("what the cost model learns, instead of the list's `search`, ", join(objective_names(), ", "),
                     ": what it was made for, the order of a task's "
                     "candidates, or their speed"));
  app.add_option("--model-file", options.model_file,
                 "the cost model begins with what an earlier run wrote there, and is written there at the end");
  app.add_option("--transfer", options.transfer,
                 "what other tasks have taught, instead of the list's `search`: `none`; `shipped`, the cost model that "
                 "comes with tracewright and kernels of similar tasks; or a file of `model train` in its place");
  app.add_option("--rules", options.rules, "a rule set instead of the list's");
  app.add_option("--strategy", options.strategy,
                 "how candidates are proposed, instead of the list's `search`: " + strategy_names());
  app.add_flag("--replay-measurements", options.replay_measurements,
               "take results from the database instead of measuring");
  app.add_flag(
      "--compile-only", options.compile_only,
      "for `cuda`: search with an analytic model, compile the best, write them for `run-manifest`; needs no device");
  app.add_option("--finalists", options.finalists, "of --compile-only: how many of each task").range(1, 10000);
  app.add_option("--output", options.output,
                 "of --compile-only: the folder; default: the name of the list, _finalists");
  app.add_flag("--dry-run", options.dry_run, "check everything, list the sketches, estimate; start nothing");
  app.add_flag("--json", options.json, "print one JSON object");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  return tune_list(options);
}

}  // namespace tw::cli
