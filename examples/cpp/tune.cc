// The whole search: tasks, a database, a worker that measures, an observer. What is found is in the database.
#include "sampler/search/tune.h"

#include <atomic>
#include <iostream>

#include "dsl/text/workload.h"

namespace {

class Print : public tw::TuneObserver {
 public:
  void on_trial(const std::vector<tw::TaskProgress>& tasks, std::size_t task, const tw::Record&) override {
    std::cout << tasks[task].name << ": " << tasks[task].trials << " trials, best " << tasks[task].best_seconds * 1e6
              << " us\n";
  }
  void on_message(const std::string& text) override { std::cout << text << "\n"; }
};

}  // namespace

int main(int count, char** words) {
  const tw::WorkloadModule& operators = tw::operator_library();
  tw::Diagnostics diagnostics(*operators.source);
  auto program = tw::instantiate(operators, "dense", {{"M", tw::i64{32}}, {"N", tw::i64{64}}, {"K", tw::i64{32}}},
                                 {"relu"}, diagnostics);
  if (!program) return std::cerr << diagnostics.render(), 1;
  tw::Target target = tw::host_target();
  target.threads = 1;
  std::vector<tw::TuneTask> tasks = {{"layer", std::move(*program), target, 1, {}}};

  auto database = tw::Database::open(count > 1 ? words[1] : "tuning.db", tw::DatabaseMode::Write);
  if (!database) return std::cerr << database.error() << "\n", 1;
  tw::WorkerStart worker = tw::start_worker();
  if (!worker.measurer) return std::cerr << worker.error << "\n", 1;
  Print print;
  std::atomic<bool> stop = false;  // set it to end the run after the trial at hand
  tw::TuneResult result =
      tw::tune(tasks, tw::rules::Library::built_in(), {.trials = 4}, *database, worker.measurer.get(), print, stop);
  std::cout << result.error << result.measured << " measured in " << result.seconds << " s\n";
  return result.tasks[0].best_seconds > 0 ? 0 : 1;
}
