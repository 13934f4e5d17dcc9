// tracewright fleet: who measures for the tuners of a database, how fast, what waits, what went wrong.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/fleet_builders.h"
#include "cli/stored.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/fleet/trial_queue.h"
#include "runtime/store/postgres_address.h"

namespace tw::cli {
namespace {

struct Options {
  std::string database;
  bool json = false;
};

boost::json::object to_json(const FleetStatus& status) {
  boost::json::array machines, tuners, faults;
  for (const FleetMachine& machine : status.machines) {
    std::vector<std::string> targets = split(machine.targets, '\n');
    machines.push_back({{"name", machine.name},
                        {"host", machine.host},
                        {"version", machine.version},
                        {"targets", boost::json::array(targets.begin(), targets.end())},
                        {"memory_bytes", machine.memory_bytes},
                        {"good", machine.counts.good},
                        {"failed", machine.counts.failed},
                        {"faults", machine.counts.faults},
                        {"lost", machine.counts.lost},
                        {"late", machine.counts.late},
                        {"repeated", machine.counts.repeated},
                        {"leased", machine.leased},
                        {"trials_per_second", machine.trials_per_second},
                        {"heard_seconds_ago", machine.heartbeat_age},
                        {"gone", machine.is_gone}});
  }
  for (const FleetTuner& tuner : status.tuners)
    tuners.push_back({{"name", tuner.name},
                      {"queued", tuner.queued},
                      {"leased", tuner.leased},
                      {"done", tuner.done},
                      {"heard_seconds_ago", tuner.heartbeat_age},
                      {"waiting", boost::json::array(tuner.waiting.begin(), tuner.waiting.end())}});
  for (const FleetFault& fault : status.faults)
    faults.push_back(
        {{"kind", fault.kind}, {"machine", fault.machine}, {"count", fault.count}, {"message", fault.message}});
  return {{"machines", machines}, {"tuners", tuners}, {"faults", faults}};
}

void print_status(const FleetStatus& status) {
  std::vector<std::vector<std::string>> machines, tuners, faults;
  for (const FleetMachine& machine : status.machines) {
    const MachineCounts& counts = machine.counts;
    machines.push_back({machine.name, machine.is_gone ? "gone" : cat(show_number(machine.heartbeat_age), " s ago"),
                        show_number(machine.trials_per_second), std::to_string(machine.leased),
                        std::to_string(counts.good), std::to_string(counts.failed), std::to_string(counts.faults),
                        std::to_string(counts.lost), std::to_string(counts.late + counts.repeated), machine.host});
  }
  for (const FleetTuner& tuner : status.tuners) {
    tuners.push_back({tuner.name, cat(show_number(tuner.heartbeat_age), " s ago"), std::to_string(tuner.queued),
                      std::to_string(tuner.leased), join(tuner.waiting, ", ")});
  }
  for (const FleetFault& fault : status.faults)
    faults.push_back({fault.kind, fault.machine, std::to_string(fault.count), fault.message});
  if (machines.empty())
    std::printf("no machine measures; `tracewright measure --database ADDRESS` lends one\n");
  else
    print_table({"machine", "heard", "trials/s", "leased", "good", "failed", "faults", "lost", "late", "host"},
                machines);
  if (!tuners.empty()) {
    std::printf("\n");
    print_table({"tuner", "heard", "queued", "leased", "targets without a machine"}, tuners);
  }
  if (!faults.empty()) {
    std::printf("\n");
    print_table({"fault", "machine", "times", "the last one"}, faults);
  }
}

int show_fleet(const Options& options) {
  if (!is_database_address(options.database)) {
    say(cat("`", options.database, "` is a file; machines measure for a PostgreSQL database (postgresql://HOST/NAME)"));
    return Usage;
  }
  std::optional<TrialQueue> queue = checked(TrialQueue::open(options.database));
  std::optional<FleetStatus> status = queue ? checked(queue->status()) : std::nullopt;
  std::optional<BuildStatus> builds = status ? checked(BuildQueue(*queue).status()) : std::nullopt;
  if (!builds) return Environment;
  if (options.json) {
    boost::json::object object = to_json(*status);
    add_builders(*builds, object);
    print_json(object);
    return Ok;
  }
  print_status(*status);
  print_builders(*builds);
  return Ok;
}

}  // namespace

int run_fleet(int count, char** words) {
  Options options;
  App app("fleet",
          "The machines that measure for the tuners of a PostgreSQL database: rates, trials in the queue, what went "
          "wrong.",
          "examples:\n  tracewright fleet postgresql://tuner@db/tw --json");
  app.add_option("ADDRESS", options.database, "of the database, postgresql://...").required();
  app.add_flag("--json", options.json, "print one JSON object");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  return show_fleet(options);
}

}  // namespace tw::cli
