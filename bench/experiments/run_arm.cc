#include "bench/experiments/run_arm.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "bench/experiments/curves.h"
#include "costmodel/make_model.h"
#include "dsl/base/text.h"
#include "sampler/tasks/global_model.h"
#include "sampler/tasks/model_data.h"

namespace tw::bench {
namespace {

class Collector : public TuneObserver {
 public:
  Collector(ArmRun& run, StoredResults& results) : run_(run), results_(results) {}

  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record& last) override {
    double before = best_after(run_.seconds, run_.seconds.size());
    run_.seconds.push_back(last.ok() ? last.seconds : kNever);
    if (run_.seconds.back() < before) run_.best = {last.program, last.trace};
    if (run_.seconds.size() == 1 && last.ok()) run_.first = run_.best;
    if (last.status == Record::not_recorded) {
      ++run_.unknown;
    } else if (!results_.of(last.workload, last.target).count(last.program)) {
      measured_.push_back(last);
    }
  }
  void on_message(const std::string&) override {}

  const std::vector<Record>& measured() const { return measured_; }  // that were not known before

 private:
  ArmRun& run_;
  StoredResults& results_;
  std::vector<Record> measured_;
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

TuneResult tune_and_store(const Surroundings& with, const std::vector<TuneTask>& tasks, const TuneOptions& options,
                          const std::string& path, ArmRun& run) {
  DatabaseResult<Database> database = Database::open(path, DatabaseMode::Write);
  if (!database) return run.problem = database.error(), TuneResult();
  Collector collector(run, with.results);
  TuneResult result = tune(tasks, with.list.library, options, *database, with.measurer, collector, with.stop);
  for (const Record& record : collector.measured()) {
    if (!with.results.add(record)) run.problem = "the stored results cannot be written";
  }
  if (!result.error.empty()) run.problem = result.error;
  for (const TaskProgress& task : result.tasks)
    if (!task.problem.empty()) run.problem = task.problem;
  if (result.interrupted) run.problem = "interrupted";
  return result;
}

}  // namespace

ArmRun run_arm(const Surroundings& with, const TuneTask& task, const Arm& arm, i64 trials, u64 seed,
               const std::string& global) {
  ArmRun run;
  TuneOptions options = options_of(with, {task}, arm, trials, seed);
  options.global_model = global;
  if (global.empty() && arm.search.transfer != kNoTransfer && !arm.search.transfer.empty()) {
    std::optional<std::string> named = read_global_model(arm.search.transfer, run.problem);
    if (!named) return run;
    options.global_model = std::move(*named);
  }
  remove_database(with.scratch);
  TuneResult result = tune_and_store(with, {task}, options, with.scratch, run);
  remove_database(with.scratch);
  run.wall_seconds = result.seconds, run.search_seconds = result.search_seconds;
  run.training_seconds = result.profile.training, run.candidates = result.candidates;
  return run;
}

std::string learned_model(const Surroundings& with, const std::vector<TuneTask>& tasks, const Arm& arm,
                          const Arm& tuner, i64 trials, u64 seed, std::string& problem) {
  ArmRun run;
  std::string path = sources_path(with.scratch, tuner, trials, seed);
  tune_and_store(with, tasks, options_of(with, tasks, tuner, trials, seed), path, run);
  if (!run.problem.empty()) return problem = run.problem, "";
  MadeModel made = make_model(arm.model, model_columns(arm.model), seed, {.objective = arm.objective});
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
