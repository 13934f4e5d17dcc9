#include "bench/experiments/run_arm.h"

#include <filesystem>

#include "bench/experiments/curves.h"
#include "sampler/tasks/global_model.h"

namespace tw::bench {
namespace {

class Collector : public TuneObserver {
 public:
  Collector(ArmRun& run, const StoredResults::OfTask& known) : run_(run), known_(known) {}

  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record& last) override {
    double before = best_after(run_.seconds, run_.seconds.size());
    run_.seconds.push_back(last.ok() ? last.seconds : kNever);
    if (run_.seconds.back() < before) run_.best = {last.program, last.trace};
    if (run_.seconds.size() == 1 && last.ok()) run_.first = run_.best;
    if (last.status == Record::not_recorded) {
      ++run_.unknown;
    } else if (!known_.count(last.program)) {
      measured_.push_back(last);
    }
  }
  void on_message(const std::string& text) override { messages_ += text + "\n"; }

  const std::vector<Record>& measured() const { return measured_; }  // that were not known before
  const std::string& messages() const { return messages_; }

 private:
  ArmRun& run_;
  const StoredResults::OfTask& known_;
  std::vector<Record> measured_;
  std::string messages_;
};

void remove_database(const std::string& path) {
  std::error_code ignored;
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path + end, ignored);
}

}  // namespace

ArmRun run_arm(const LoadedList& list, const TuneTask& task, const Arm& arm, i64 trials, u64 seed,
               StoredResults& results, Measurer* measurer, const std::string& scratch, const std::atomic<bool>& stop) {
  ArmRun run;
  TaskKey key = key_of(task);
  const StoredResults::OfTask& known = results.of(key.workload, key.target);
  auto find = [&known](const TuneTask&, const Hash128& program) {
    auto found = known.find(to_hex(program));
    return found == known.end() ? nullptr : &found->second;
  };
  TuneOptions options{.trials = trials,
                      .seed = seed,
                      .overlaps = false,  // as in the papers, a batch is searched with all results before it
                      .rules = arm.rules.empty() ? list.list.rules.value : arm.rules,
                      .search = arm.search,
                      .cost_model = arm.model,
                      .objective = arm.objective,
                      .replay_measurements = !measurer,
                      .known = find,
                      .rates = results.rates()};
  if (arm.search.transfer != kNoTransfer && !arm.search.transfer.empty()) {
    std::optional<std::string> global = read_global_model(arm.search.transfer, run.problem);
    if (!global) return run;
    options.global_model = std::move(*global);
  }
  remove_database(scratch);
  DatabaseResult<Database> database = Database::open(scratch, DatabaseMode::Write);
  if (!database) return run.problem = database.error(), run;
  Collector collector(run, known);
  TuneResult result = tune({task}, list.library, options, *database, measurer, collector, stop);
  remove_database(scratch);
  for (const Record& record : collector.measured()) {
    if (!results.add(record)) run.problem = "the stored results cannot be written";
  }
  if (!result.error.empty()) run.problem = result.error;
  if (!result.tasks.empty() && !result.tasks[0].problem.empty()) run.problem = result.tasks[0].problem;
  if (result.interrupted) run.problem = "interrupted";
  run.wall_seconds = result.seconds, run.search_seconds = result.search_seconds;
  run.training_seconds = result.profile.training, run.candidates = result.candidates;
  return run;
}

}  // namespace tw::bench
