// tracewright fleet: who measures for the tuners of a database, how fast, what waits, what went wrong. Once, again and
// again in a terminal, or as a page that is written again.
#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/fleet_builders.h"
#include "cli/fleet_classes.h"
#include "cli/interrupt.h"
#include "cli/stored.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/fleet/trial_queue.h"
#include "runtime/store/postgres_address.h"
#include "sampler/report/fleet_page.h"
#include "sampler/report/task_curves.h"

namespace tw::cli {
namespace {

struct Options {
  std::string database, html;
  bool json = false, watch = false;
  double every = 5;
  u64 updates = 0;  // 0 = until Ctrl-C
  bool repeats() const { return watch || !html.empty(); }
};

// ---- text

using Rows = std::vector<std::vector<std::string>>;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string ago(double seconds) { return cat(show_number(seconds), " s ago"); }

void print_more(const std::vector<std::string>& head, const Rows& rows) {
  if (rows.empty()) return;
  std::printf("\n");
  print_table(head, rows);
}

void print_faults(const char* what, const std::vector<FleetFault>& faults) {
  Rows rows;
  for (const FleetFault& fault : faults)
    rows.push_back({fault.kind, fault.machine, std::to_string(fault.count), first_line(fault.message)});
  print_more({what, "machine", "times", "the last one"}, rows);
}

std::string summary_of(const FleetStatus& status) {
  FleetSample now = sample_of(status);
  double rate = 0;
  for (const FleetMachine& machine : status.machines) rate += machine.is_gone ? 0 : machine.trials_per_second;
  return fmt::format("{} {}, {:.1f} trials/s; {} trials in the queue, {} are being measured; {} so far", now.machines,
                     now.machines == 1 ? "machine measures" : "machines measure", rate, now.queued, now.leased,
                     now.measured);
}

void print_machines(const FleetStatus& status) {
  Rows rows;
  for (const FleetMachine& machine : status.machines) {
    const MachineCounts& counts = machine.counts;
    rows.push_back({machine.name, machine.is_gone ? "gone" : ago(machine.heartbeat_age), join(machine.measures, ", "),
                    show_number(machine.trials_per_second), std::to_string(machine.leased), std::to_string(counts.good),
                    std::to_string(counts.failed), std::to_string(counts.faults), std::to_string(counts.lost),
                    std::to_string(counts.late + counts.repeated), machine.host});
  }
  if (rows.empty())
    std::printf("no machine measures; `tracewright measure --database ADDRESS` lends one\n");
  else
    print_table(
        {"machine", "heard", "measures", "trials/s", "leased", "good", "failed", "faults", "lost", "late", "host"},
        rows);
}

void print_status(const FleetStatus& status) {
  Rows tuners, tasks;
  for (const FleetTuner& tuner : status.tuners) {
    tuners.push_back({tuner.name, ago(tuner.heartbeat_age), std::to_string(tuner.queued), std::to_string(tuner.leased),
                      join(tuner.waiting, ", ")});
    for (const QueuedTask& task : tuner.tasks)
      tasks.push_back({task.task, tuner.name, std::to_string(task.queued), std::to_string(task.leased), task.target});
  }
  std::printf("%s\n\n", summary_of(status).c_str());
  print_machines(status);
  print_classes(status);
  print_more({"tuner", "heard", "queued", "leased", "targets without a machine"}, tuners);
  print_more({"task", "tuner", "queued", "leased", "target"}, tasks);
  print_faults("failure", status.failures);
  print_faults("fault", status.faults);
}

// ---- JSON

boost::json::object fleet_json(const FleetStatus& status, const BuildStatus& builds) {
  boost::json::object json = to_json(status, now_ms());
  boost::json::array& machines = json.at("machines").as_array();
  for (std::size_t i = 0; i < machines.size(); ++i) {
    machines[i].as_object()["clock_mhz"] = status.machines[i].clock_mhz;
    machines[i].as_object()["calibrations"] = calibrations_json(status.machines[i]);
  }
  add_builders(builds, json);
  return json;
}

// ---- again and again

// Reads the fleet's state, and waits for a server that went away.
class Watch {
 public:
  Watch(const Options& options, TrialQueue queue) : options_(options), queue_(std::move(queue)) {}

  // An exit code once there is no more to say.
  std::optional<int> update() {
    ++updates_;
    const bool is_last = !options_.repeats() || stop_wanted || updates_ == options_.updates;
    DatabaseResult<FleetStatus> status = read_status();
    if (!status && (updates_ == 1 || !status.failure().is_connection_lost))
      return say_database_error(status.error()), Environment;
    const std::string problem = status ? "" : status.error();
    if (!problem.empty() && problem != problem_) say(cat(problem, "; it is waited for"));
    problem_ = problem;
    if (status) view_.status = std::move(*status), view_.history.add(sample_of(view_.status));
    const bool is_shown = options_.html.empty() ? print() : write_page(is_last);
    if (!is_shown && updates_ == 1) return Environment;  // later there may be room again
    if (!is_last) return std::nullopt;
    return stop_wanted ? Interrupted : is_shown && problem_.empty() ? Ok : Environment;
  }

 private:
  // Whatever keeps a connection that was lost from being made again may pass.
  DatabaseResult<FleetStatus> read_status() {
    if (!queue_.connection().is_connected()) {
      if (DatabaseStatus again = queue_.reconnect(); !again) return DatabaseError{again.error(), "", true};
    }
    DatabaseResult<FleetStatus> status = queue_.status();
    DatabaseResult<BuildStatus> builds = status ? BuildQueue(queue_).status() : status.failure();
    if (!builds) return builds.failure();
    builds_ = std::move(*builds);
    return status;
  }

  bool print() const {
    if (!problem_.empty() || stop_wanted) return true;
    if (options_.json) return print_json(fleet_json(view_.status, builds_)), true;
    if (options_.watch) std::printf("%s", isatty(STDOUT_FILENO) ? "\x1b[H\x1b[J" : updates_ > 1 ? "\n" : "");
    print_status(view_.status);
    print_builders(builds_);
    return std::fflush(stdout) == 0;
  }

  bool write_page(bool is_last) {
    view_.address = options_.database;
    view_.problem = problem_.empty() ? read_curves() : problem_;
    view_.refresh_seconds = is_last ? 0 : options_.every;
    return replace_file(options_.html, fleet_page(view_));
  }

  // Why they may be old; "" = they are not.
  std::string read_curves() {
    if (!database_) {
      auto opened = Database::open(options_.database, DatabaseMode::Read);
      if (!opened) return opened.error();
      database_.emplace(std::move(*opened));
    }
    DatabaseStatus read = curves_.read(*database_);
    view_.curves = curves_.report();
    return read ? "" : read.error();
  }

  const Options& options_;
  TrialQueue queue_;
  std::optional<Database> database_;
  TaskCurves curves_;
  FleetView view_;
  BuildStatus builds_;
  std::string problem_;
  u64 updates_ = 0;
};

// Until then, or Ctrl-C.
void sleep_until(double end) {
  constexpr double kLongest = 0.1;
  for (double left; !stop_wanted && (left = end - seconds_now()) > 0;)
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kLongest)));
}

int show_fleet(const Options& options) {
  if (!is_database_address(options.database)) {
    say(cat("`", options.database, "` is a file; machines measure for a PostgreSQL database (postgresql://HOST/NAME)"));
    return Usage;
  }
  if (options.json && !options.html.empty()) return say("--html writes a page: leave --json away"), Usage;
  std::optional<TrialQueue> queue = checked(TrialQueue::open(options.database));
  if (!queue) return Environment;
  if (options.repeats()) catch_interrupts();
  Watch watch(options, std::move(*queue));
  for (;;) {
    double begin = seconds_now();
    if (std::optional<int> code = watch.update()) return *code;
    sleep_until(begin + options.every);
  }
}

}  // namespace

int run_fleet(int count, char** words) {
  Options options;
  App app("fleet",
          "The machines that measure for the tuners of a PostgreSQL database: who measures what, rates, trials in the "
          "queue, what went\nwrong.",
          "examples:\n  tracewright fleet postgresql://reader@db/tw --watch\n"
          "  tracewright fleet postgresql://reader@db/tw --html fleet.html    # until Ctrl-C");
  app.add_option("ADDRESS", options.database, "of the database, postgresql://...").required();
  app.add_flag("--json", options.json, "print one JSON object; with --watch one a line");
  app.add_flag("--watch", options.watch, "print it again and again until Ctrl-C");
  app.add_option("--html", options.html, "write a page, with the curve of each task, again and again until Ctrl-C");
  app.add_option("--every", options.every, "seconds between two updates of --watch and --html").range(0.1, 86400.0);
  app.add_option("--updates", options.updates, "end after so many updates; 0 = only Ctrl-C ends it");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  return show_fleet(options);
}

}  // namespace tw::cli
