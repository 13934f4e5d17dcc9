#include "bench/experiments/run_arm.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "bench/experiments/curves.h"
#include "costmodel/make_model.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/text/workload.h"
#include "runtime/measure/machine_probe.h"
#include "sampler/tasks/global_model.h"
#include "sampler/tasks/model_data.h"

namespace tw::bench {
namespace {

constexpr const char* kNotWritten = "the stored results cannot be written";

class Collector : public TuneObserver {
 public:
  explicit Collector(ArmRun& run) : run_(run) {}

  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record& last) override {
    double before = best_after(run_.seconds, run_.seconds.size());
    run_.seconds.push_back(last.ok() ? last.seconds : kNever);
    if (run_.seconds.back() < before) run_.best = {last.program, last.trace};
    if (run_.seconds.size() == 1 && last.ok()) run_.first = run_.best;
    run_.unknown += last.status == Record::not_recorded;
    trials_.push_back(last);
  }
  void on_message(const std::string&) override {}

  const std::vector<Record>& trials() const { return trials_; }  // in order

 private:
  ArmRun& run_;
  std::vector<Record> trials_;
};

void remove_database(const std::string& path) {
  std::error_code ignored;
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path + end, ignored);
}

std::string sources_path(const std::string& scratch, const Arm& tuner, i64 trials, u64 seed) {
  std::string name = tuner.name;
  std::ranges::replace_if(name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return cat(scratch.substr(0, scratch.rfind('.')), ".", name, ".", trials, ".", seed, ".db");
}

TuneOptions options_of(const Surroundings& with, const std::vector<TuneTask>& tasks, const Arm& arm, i64 trials,
                       u64 seed) {
  std::map<std::string, const StoredResults::OfTask*> known;  // by name
  for (const TuneTask& task : tasks) {
    TaskKey key = key_of(task);
    known[task.name] = &with.results.of(key.workload, key.target);
  }
  auto find = [known](const TuneTask& task, const Hash128& program) {
    const StoredResults::OfTask& own = *known.at(task.name);
    auto found = own.find(to_hex(program));
    return found == own.end() ? nullptr : &found->second;
  };
  return {.trials = trials,
          .seed = seed,
          .overlaps = false,  // as in the papers, a batch is searched with all results before it
          .rules = arm.rules.empty() ? with.list.list.rules.value : arm.rules,
          .search = arm.search,
          .cost_model = arm.model,
          .objective = arm.objective,
          .replay_measurements = !with.measurer,
          .known = find,
          .rates = with.results.rates()};
}

// All that the candidates of a search follow from but its results: two searches of one text find the same.
std::string text_of(const std::vector<TuneTask>& tasks, const TuneOptions& options, const StoredResults& results) {
  const SearchChoice& search = options.search;
  std::string text = cat(options.trials, " trials, seed ", options.seed, ", rules ", options.rules, ", model ",
                         options.cost_model, " after ", to_hex(hash_bytes(options.global_model)), ", ",
                         objective_names()[static_cast<std::size_t>(options.objective)], "; ", search.strategy, ",",
                         search.select, ",", search.acquisition, ",", search.transfer);
  for (const auto& [name, value] : search.settings) text += cat(",", name, "=", value);
  text += cat("; a machine with ", to_text(results.rates()), "; ", TW_VERSION);
  for (const TuneTask& task : tasks) {
    TaskKey key = key_of(task);
    text += cat("; ", task.name, ",", key.workload, ",", key.target);
  }
  return text;
}

// What an arm's search took: of this run where it measured something, and no less than the run whose seconds are
// stored; else what is stored. One that measures little of its search says little about all of it. False if it cannot
// be stored.
bool note_seconds(const Surroundings& with, const TuneTask& task, const Arm& arm, const TuneOptions& options,
                  const SearchSeconds& seconds, ArmRun& run) {
  TaskKey of = key_of(task);
  const StoredResults::SearchKey key{of.workload,    of.target,
                                     arm.name,       to_hex(hash_bytes(text_of({task}, options, with.results))),
                                     options.trials, run.seed};
  const SearchSeconds* stored = with.results.took(key);
  bool is_new = seconds.measured > 0 && (!stored || seconds.measured >= stored->measured);
  if (is_new)
    run.took = seconds;
  else if (stored)
    run.took = *stored;
  return !is_new || with.results.set_took(key, seconds);
}

// Tunes, and stores the results that are new. `trials` receives all of them, if not null.
TuneResult tune_and_store(const Surroundings& with, const std::vector<TuneTask>& tasks, const TuneOptions& options,
                          ArmRun& run, std::vector<Record>* trials = nullptr) {
  Collector collector(run);
  TuneResult result;
  remove_database(with.scratch);
  {
    DatabaseResult<Database> database = Database::open(with.scratch, DatabaseMode::Write);
    if (!database) return run.problem = database.error(), TuneResult();
    result = tune(tasks, with.list.library, options, *database, with.measurer, collector, with.stop);
  }
  remove_database(with.scratch);
  for (const Record& record : collector.trials()) {
    bool is_new = record.status != Record::not_recorded &&
                  !with.results.of(record.workload, record.target).contains(record.program);
    if (is_new && !with.results.add(record)) run.problem = kNotWritten;
  }
  if (!result.error.empty()) run.problem = result.error;
  for (const TaskProgress& task : result.tasks)
    if (!task.problem.empty()) run.problem = task.problem;
  if (result.interrupted) run.problem = "interrupted";
  if (trials) *trials = collector.trials();
  return result;
}

// ---- trials of the tasks that a model learns from

constexpr const char* kFinished = "finished";  // StoredRun::outcome: all trials of the search are there

bool has_finished(const std::string& path, const std::string& search) {
  if (!std::filesystem::exists(path)) return false;
  DatabaseResult<Database> database = Database::open(path, DatabaseMode::Read);
  DatabaseResult<std::vector<StoredRun>> runs =
      database ? database->runs() : DatabaseResult<std::vector<StoredRun>>(std::vector<StoredRun>());
  return runs && std::ranges::any_of(
                     *runs, [&](const StoredRun& run) { return run.command == search && run.outcome == kFinished; });
}

// Also those trials whose results were known: a database of tune() has none of them.
DatabaseStatus keep_trials(const std::string& path, const std::string& search, const std::vector<TuneTask>& tasks,
                           const std::vector<Record>& trials) {
  remove_database(path);
  DatabaseResult<Database> database = Database::open(path, DatabaseMode::Write);
  if (!database) return DatabaseError{database.error()};
  DatabaseResult<i64> run = database->begin_run({.command = search, .version = TW_VERSION});
  if (!run) return DatabaseError{run.error()};
  for (const TuneTask& task : tasks) {
    DatabaseStatus added = database->add_workload(key_of(task).workload, workload_text(task.program.program));
    if (!added) return added;
  }
  DatabaseStatus stored = database->add_records(trials);
  return stored ? database->finish_run(*run, kFinished) : stored;
}

// "", or why there are no such trials. Where an earlier search was interrupted, or was another one, it begins anew:
// what was measured is not measured again, and the same programs are found.
std::string search_sources(const Surroundings& with, const std::vector<TuneTask>& tasks, const TuneOptions& options,
                           const std::string& path) {
  const std::string search =
      cat("learns from, results ", with.results.path(), ", ", text_of(tasks, options, with.results));
  if (has_finished(path, search)) return "";
  ArmRun run;
  std::vector<Record> trials;
  tune_and_store(with, tasks, options, run, &trials);
  if (!run.problem.empty()) return run.problem;
  if (run.unknown > 0) return cat(run.unknown, " of its trials have no stored result");
  DatabaseStatus kept = keep_trials(path, search, tasks, trials);
  return kept ? "" : kept.error();
}

}  // namespace

ArmRun run_arm(const Surroundings& with, const TuneTask& task, const Arm& arm, i64 trials, u64 seed,
               const std::string& global) {
  ArmRun run{.seed = seed};
  TuneOptions options = options_of(with, {task}, arm, trials, seed);
  options.global_model = global;
  if (global.empty() && arm.search.transfer != kNoTransfer && !arm.search.transfer.empty()) {
    std::optional<std::string> named = read_global_model(arm.search.transfer, arm.model, arm.objective, run.problem);
    if (!named) return run.has_ended_early = true, run;
    options.global_model = std::move(*named);
  }
  std::size_t known = with.results.size();
  TuneResult result = tune_and_store(with, {task}, options, run);
  run.has_ended_early = !run.problem.empty() && run.seconds.size() < static_cast<std::size_t>(trials);
  const SearchSeconds seconds{.tuning = result.seconds,
                              .search = result.search_seconds,
                              .training = result.profile.training,
                              .measured = static_cast<i64>(with.results.size() - known)};
  if (run.problem.empty() && !note_seconds(with, task, arm, options, seconds, run)) run.problem = kNotWritten;
  return run;
}

std::string learned_model(const Surroundings& with, const std::vector<TuneTask>& tasks, const Arm& arm,
                          const Arm& tuner, i64 trials, u64 seed, std::string& problem) {
  const std::string path = sources_path(with.scratch, tuner, trials, seed);
  problem = search_sources(with, tasks, options_of(with, tasks, tuner, trials, seed), path);
  if (!problem.empty()) return "";
  MadeModel made = make_model(arm.model, model_columns(arm.model), seed, {.objective = Objective::Rank});
  DatabaseResult<Database> database = Database::open(path, DatabaseMode::Read);
  ModelData data{.features = feature_kind_of(arm.model)};
  if (!made.model || !database) return problem = made.model ? database.error() : made.note, "";
  if (DatabaseStatus read = add_model_data(data, *database); !read) return problem = read.error(), "";
  TrainReport report = made.model->update(data.data, Effort::Full);
  if (report.passes == 0)
    return problem = report.problem.empty() ? "its model has learned nothing" : report.problem, "";
  return made.model->save();
}

}  // namespace tw::bench
