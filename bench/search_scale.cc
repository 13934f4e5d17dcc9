// Does a long run keep its memory and its time per round? Tunes simulated tasks (bench/simulated.h). Every `--every`
// trials it prints the time of a round, the memory of the process, and how many tasks are open in the measurer.
//   search_scale [--tasks 1] [--trials 50000] [--seconds 0] [--every 1000] [--model tree] [--threads 0]
//                [--database FILE] [--records 0] [--more 0] [--stop 0]
// --tasks 1 is one task with a space of millions of candidates. --records N stores N trials in the database first; the
// run then resumes on them, and the time until its first measurement is printed. --stop S stops the run after S
// seconds, as Ctrl-C does, and prints how long it took to end.
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "bench/simulated.h"
#include "costmodel/make_model.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"

namespace tw::bench {
namespace {

struct Options {
  int tasks = 1, threads = 0;
  i64 trials = 50000, every = 1000, records = 0, more = 0;
  double seconds = 0, stop = 0;
  std::string model = "tree", database;
};

constexpr double kTrialsOfARound = 32;

double processor_seconds() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double resident_mebibytes() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

class Table : public TuneObserver {
 public:
  Table(i64 every, const SimulatedMeasurer& measurer) : every_(every), measurer_(measurer) {
    std::printf("%9s %9s %14s %18s %9s %11s %7s\n", "trials", "seconds", "wall s/round", "processor s/round", "MiB",
                "open tasks", "begun");
  }
  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record&) override {
    if (first_ == 0) first_ = seconds_now() - begin_;
    if (++trials_ % every_ != 0) return;
    double now = seconds_now(), used = processor_seconds(), rounds = static_cast<double>(every_) / kTrialsOfARound;
    std::printf("%9lld %9.1f %14.3f %18.3f %9.1f %11zu %7lld\n", static_cast<long long>(trials_), now - begin_,
                (now - last_) / rounds, (used - last_used_) / rounds, resident_mebibytes(), measurer_.open(),
                static_cast<long long>(measurer_.begun()));
    std::fflush(stdout);
    last_ = now, last_used_ = used;
  }
  void on_message(const std::string& text) override { std::fprintf(stderr, "%s\n", text.c_str()); }
  double first() const { return first_; }

 private:
  i64 every_, trials_ = 0;
  const SimulatedMeasurer& measurer_;
  double begin_ = seconds_now(), last_ = begin_, last_used_ = processor_seconds(), first_ = 0;
};

std::string fresh(const std::string& path) {
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
  return path;
}

void print_end(const TuneResult& result, const SimulatedMeasurer& measurer, double first) {
  const TuneProfile& p = result.profile;
  std::printf("%lld trials in %.1f s; first measured after %.2f s; most tasks open %zu, begun %lld, left open %zu\n",
              static_cast<long long>(result.measured), result.seconds, first, measurer.most_open(),
              static_cast<long long>(measurer.begun()), measurer.open());
  std::printf(
      "seconds: open tasks %.1f, search %.1f, train %.1f, wait %.1f; beside: compile %.1f, store %.1f; %lld "
      "candidates\n",
      p.space, result.search_seconds, p.training, p.waiting, p.lower + p.compile, p.database,
      static_cast<long long>(result.candidates));
}

int run(const Options& options) {
  std::string path = options.database;
  if (path.empty()) path = fresh((std::filesystem::temp_directory_path() / "tracewright_search_scale.db").string());
  double begin = seconds_now();
  auto database = Database::open(path, DatabaseMode::Write);
  if (!database) return std::fprintf(stderr, "%s\n", database.error().c_str()), 1;
  std::printf("database opened in %.2f s\n", seconds_now() - begin);
  rules::Library library = rules::Library::built_in();
  std::vector<TuneTask> tasks;
  if (options.tasks > 1)
    tasks = simulated_tasks(options.tasks);
  else
    tasks.push_back(simulated_large_task());
  if (options.records > 0) {
    begin = seconds_now();
    std::string problem = store_simulated_records(*database, tasks, library, options.records);
    if (!problem.empty()) return std::fprintf(stderr, "%s\n", problem.c_str()), 1;
    std::printf("%lld records stored in %.1f s\n", static_cast<long long>(options.records), seconds_now() - begin);
  }
  SimulatedMeasurer measurer;
  Table table(options.every, measurer);
  std::atomic<bool> stop{false};
  std::atomic<double> stopped{0};
  std::thread interrupt([&, until = seconds_now() + options.stop] {
    if (options.stop == 0) return;
    while (!stop && seconds_now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!stop.exchange(true)) stopped = seconds_now();
  });
  TuneOptions tuning{.trials = options.trials,
                     .more = options.more,
                     .seconds = options.seconds,
                     .seed = 1,
                     .threads = options.threads,
                     .rules = "cpu",
                     .cost_model = options.model};
  TuneResult result = tune(tasks, library, tuning, *database, &measurer, table, stop);
  if (stopped > 0) std::printf("stopped %.2f s after Ctrl-C\n", seconds_now() - stopped);
  stop = true;
  interrupt.join();
  print_end(result, measurer, table.first());
  return result.error.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tw::bench

int main(int count, char** words) {
  tw::bench::Options options;
  CLI::App app("Does a long run keep its memory and its time per round?");
  app.add_option("--tasks", options.tasks, "number of tasks; 1 = one task with a space of millions of candidates")
      ->check(CLI::Range(1, 288));
  app.add_option("--trials", options.trials, "for each task");
  app.add_option("--more", options.more, "trials of each task, beyond those that are stored");
  app.add_option("--seconds", options.seconds, "limit of the run");
  app.add_option("--every", options.every, "trials between two rows")->check(CLI::PositiveNumber);
  app.add_option("--model", options.model, "cost model: " + tw::join(tw::model_names(), ", "));
  app.add_option("--threads", options.threads, "of the search");
  app.add_option("--database", options.database, "a file that is kept and resumed from; default: a new one");
  app.add_option("--records", options.records, "number of trials that are stored in the database before the run");
  app.add_option("--stop", options.stop, "stop the run after this many seconds, as Ctrl-C does");
  CLI11_PARSE(app, count, words);
  return tw::bench::run(options);
}
