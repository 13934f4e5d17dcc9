// A task list as the command reads it: tuned, and the kernels exported as a C library.
#include <atomic>
#include <iostream>

#include "sampler/tasks/export_task.h"
#include "sampler/tasks/load_list.h"

namespace {

class Quiet : public tw::TuneObserver {
 public:
  void on_trial(const std::vector<tw::TaskProgress>&, std::size_t, const tw::Record&) override {}
  void on_message(const std::string& text) override { std::cerr << text << "\n"; }
};

}  // namespace

int main(int count, char** words) {
  if (count != 4) return std::cerr << "usage: task_list LIST.yaml DATABASE FOLDER\n", 2;
  std::string messages;  // errors and warnings with their places
  std::optional<tw::LoadedList> list = tw::load_list(words[1], messages);
  std::cerr << messages;
  if (!list) return 2;

  auto database = tw::Database::open(words[2], tw::DatabaseMode::Write);
  if (!database) return std::cerr << database.error() << "\n", 1;
  tw::WorkerStart worker = tw::start_worker();
  if (!worker.measurer) return std::cerr << worker.error << "\n", 1;
  Quiet quiet;
  std::atomic<bool> stop = false;
  tw::TuneOptions options{.trials = list->list.trials.value, .rules = list->list.rules.value};
  tw::TuneResult result = tw::tune(list->tasks, list->library, options, *database, worker.measurer.get(), quiet, stop);
  if (!result.error.empty()) return std::cerr << result.error << "\n", 1;

  tw::ExportPlan plan{"kernels", {}};
  for (const tw::TuneTask& task : list->tasks) {
    std::string message;
    std::optional<tw::ExportedTask> exported = tw::export_task(*database, task, plan.library, message);
    if (!exported) return std::cerr << message << "\n", 1;
    plan.tasks.push_back(std::move(*exported));
  }
  tw::ExportResult written = tw::write_export(plan, words[3]);
  std::cout << written.error << plan.tasks.size() << " kernels in " << words[3] << "\n";
  return written.error.empty() ? 0 : 1;
}
