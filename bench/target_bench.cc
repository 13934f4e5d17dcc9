// The best kernels of one target against those of another, task by task, measured in turn in one run: a device against
// the processor. Both lists name the same tasks; the kernels come from the records of the database.
//   target_bench LIST.yaml OTHER.yaml DATABASE [--rounds 15]
// Printed for each task: the medians of both with the median of the rounds' ratios; the smallest times of both with
// their ratio, which other work on the machine disturbs less; and the least sum of the kernels' own times by the clock
// of a device, which leaves out launching and waiting.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>

#include "backends/backend.h"
#include "bench/list_of.h"
#include "dsl/base/quantile.h"
#include "sampler/search/task_state.h"
#include "sampler/search/trial.h"

namespace tw::bench {
namespace {

class Quiet : public TuneObserver {
 public:
  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record&) override {}
  void on_message(const std::string& text) override { std::fprintf(stderr, "%s\n", text.c_str()); }
};

// One of the two targets: a worker, and the best kernel of a task.
class Side {
 public:
  explicit Side(LoadedList list) : list_(std::move(list)) {}

  std::string start() {
    if (list_.tasks.empty()) return "the list has no task";
    WorkerStart started = start_worker(worker_options(list_.tasks[0].target));
    measurer_ = std::move(started.measurer);
    Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(list_.tasks[0].target));
    if (!compiler) return to_string(compiler.rejected());
    compiler_.emplace(std::move(*compiler));
    return started.error;
  }
  const std::vector<TuneTask>& tasks() const { return list_.tasks; }

  // Takes over the best kernel of the task with that name; what is wrong, or "".
  std::string take(const std::string& name, Database& database) {
    auto found =
        std::find_if(list_.tasks.begin(), list_.tasks.end(), [&](const TuneTask& t) { return t.name == name; });
    if (found == list_.tasks.end()) return "the other list has no such task";
    task_ = &*found;
    Quiet quiet;
    TaskState state;
    open_task(state, *task_, list_.library, {.trials = 0, .rules = list_.list.rules.value}, database, quiet);
    std::vector<Candidate> best = state.elites(1);
    if (best.empty()) return "no good record in the database";
    CandidateBuilder builder(state.space);
    Result<Program> program = builder.build(best[0], nullptr);
    if (!program) return "its record cannot be built again";
    BuiltKernel built = loadable(build_kernel(*program, task_->target, *compiler_), task_->target);
    if (!built.kernel) return built.problem;
    kernel_ = std::move(*built.kernel);
    TaskStart begun = begin_judged_task(*measurer_, task_->program.program, task_->target, *compiler_, 1);
    handle_ = begun.task;
    return begun.error;
  }

  MeasureResult measure() {
    MeasureOptions options;
    options.threads = task_->target.threads;
    options.sample_seconds = 2e-3;
    return measurer_->measure(handle_, kernel_, options);
  }
  void end() {
    if (handle_ >= 0) measurer_->end_task(handle_);
    handle_ = -1;
  }
  std::size_t launches() const { return kernel_.manifest.run_launches.size(); }

 private:
  LoadedList list_;
  std::optional<LlvmCompiler> compiler_;
  std::unique_ptr<Measurer> measurer_;
  const TuneTask* task_ = nullptr;
  Kernel kernel_;
  int handle_ = -1;
};

std::string race(const std::string& name, Side sides[2], Database& database, int rounds) {
  for (int i = 0; i < 2; ++i) {
    if (std::string wrong = sides[i].take(name, database); !wrong.empty()) return wrong;
  }
  std::vector<double> times[2], ratios;
  double least[2] = {1e9, 1e9}, device = 1e9;
  for (int round = 0; round < rounds; ++round) {
    MeasureResult results[2];
    for (int i = 0; i < 2; ++i) results[i] = sides[(round + i) % 2].measure();
    if (round % 2 == 1) std::swap(results[0], results[1]);
    for (const MeasureResult& result : results) {
      if (result.seconds == 0) return result.message;
    }
    for (int i = 0; i < 2; ++i) {
      times[i].push_back(results[i].median_seconds);
      least[i] = std::min(least[i], results[i].min_seconds);
    }
    ratios.push_back(results[1].median_seconds / results[0].median_seconds);
    device = std::min(device, std::max(results[0].device_seconds, results[1].device_seconds));
  }
  double scale = 1e6;
  std::printf(
      "%-20s medians %8.2f and %8.2f us, other / first %.3f; least %8.2f and %8.2f us, %.3f; %zu launches, %.2f us by "
      "the device's clock\n",
      name.c_str(), median(times[0]) * scale, median(times[1]) * scale, median(ratios), least[0] * scale,
      least[1] * scale, least[1] / least[0], std::max(sides[0].launches(), sides[1].launches()), device * scale);
  std::fflush(stdout);
  return "";
}

std::string compare(const std::string& name, Side sides[2], Database& database, int rounds) {
  std::string wrong = race(name, sides, database, rounds);
  for (int i = 0; i < 2; ++i) sides[i].end();
  return wrong;
}

}  // namespace
}  // namespace tw::bench

int main(int count, char** words) {
  using namespace tw;
  std::string paths[2], database_path;
  int rounds = 15;
  CLI::App app("The best kernels of two targets, measured in turn.");
  app.add_option("LIST", paths[0], "a task list, YAML")->required();
  app.add_option("OTHER", paths[1], "the same tasks for another target")->required();
  app.add_option("DATABASE", database_path, "with records of both")->required();
  app.add_option("--rounds", rounds, "of measuring one, then the other");
  CLI11_PARSE(app, count, words);
  std::optional<LoadedList> lists[2] = {bench::list_of(paths[0]), bench::list_of(paths[1])};
  if (!lists[0] || !lists[1]) return 2;
  auto database = Database::open(database_path, DatabaseMode::Write);  // open_task stores the workload
  if (!database) return std::fprintf(stderr, "%s\n", database.error().c_str()), 1;
  bench::Side sides[2] = {bench::Side(std::move(*lists[0])), bench::Side(std::move(*lists[1]))};
  for (bench::Side& side : sides) {
    if (std::string wrong = side.start(); !wrong.empty()) return std::fprintf(stderr, "%s\n", wrong.c_str()), 3;
  }
  int code = 0;
  for (const TuneTask& task : sides[0].tasks()) {
    std::string wrong = bench::compare(task.name, sides, *database, rounds);
    if (!wrong.empty()) std::printf("%-24s %s\n", task.name.c_str(), wrong.c_str()), code = 1;
  }
  return code;
}
