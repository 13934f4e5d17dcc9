// Experiments: searches of several arms and seeds, compared. For each experiment FILE.yaml the folder gets
//   FILE.curves.csv   a line for each trial: the best so far
//   FILE.summary.csv  a line for each task and arm: medians over the seeds, and their range
// and plot.py draws the first. Times of the summary are those of the best programs of all arms and seeds, which are
// measured in turn at the end. Programs whose results are in FILE.results.csv are not measured again; with
// --replay-measurements nothing is measured, and what is not there counts as failed.
//   tracewright-experiments bench/experiments/models.yaml --output out [--trials 64] [--seeds 2] [--tasks c6]
#include <signal.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "bench/experiments/run_experiment.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace {

std::atomic<bool> stop_wanted{false};
void on_interrupt(int) { stop_wanted = true; }

}  // namespace

int main(int count, char** words) {
  using namespace tw;
  bench::ExperimentOptions options;
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
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? bench::Reached : bench::Usage;
  }
  std::error_code ignored;
  std::filesystem::create_directories(options.output, ignored);
  if (!std::filesystem::is_directory(options.output)) return say(cat(options.output, " is no folder")), bench::Usage;
  signal(SIGINT, on_interrupt);
  WorkerStart worker;
  if (!options.replay) worker = start_worker();
  if (!options.replay && !worker.measurer) return say(worker.error), bench::Environment;
  for (const std::string& file : options.files) {
    bench::ExitCode code = bench::run_experiment(file, options, worker.measurer.get(), stop_wanted);
    if (code != bench::Reached) return code;
  }
  return bench::Reached;
}
