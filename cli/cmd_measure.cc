// tracewright measure: lends this machine to the tuners of a database.
#include <unistd.h>

#include <boost/json/object.hpp>
#include <cmath>
#include <cstdio>

#include "backends/cuda/nvrtc.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/devices.h"
#include "cli/interrupt.h"
#include "cli/stored.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/fleet/metrics_server.h"
#include "runtime/measure/machine_probe.h"
#include "runtime/measure/machine_roofs.h"
#include "runtime/store/postgres_address.h"
#include "sampler/fleet/measuring_machine.h"
#include "sampler/search/other_cores.h"

namespace tw::cli {
namespace {

struct Options {
  std::string database, name;
  double seconds = 0;
  std::optional<u64> metrics;  // port
  i64 calibrate_every = kTrialsBetweenCalibrations;
  bool is_uncalibrated = false;
  bool json = false;
};

// The devices of this machine, one a line, as `doctor` finds them: the line of a CUDA device names its driver.
std::string devices_of_machine() {
  std::string text;
  for (TargetKind kind : {TargetKind::OpenCl, TargetKind::Cuda}) {
    Target target;
    target.kind = kind;
    for (const std::string& device : list_devices(worker_options(target)).devices)
      text += cat(text.empty() ? "" : "\n", name_of(kind), " ", device);
  }
  return text;
}

// The clock class: what the cores reach under load, to 100 MHz.
i64 clock_mhz() { return 100 * std::llround(measure_clock() * 1e-8); }

MachineOptions machine_options(const Options& options) {
  std::string ignored;
  std::string nvrtc = cuda::nvrtc_version(ignored).value_or(""), devices = devices_of_machine();
  return {.address = options.database,
          .announced = {.name = options.name.empty() ? name_of_process() : options.name,
                        .host = host_description(),
                        .version = TW_VERSION,
                        .targets = cat(to_string(host_target()), devices.empty() ? "" : "\n", devices),
                        .memory_bytes = i64{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE),
                        .clock_mhz = clock_mhz(),
                        .drivers = devices},
          .why_no_device = [nvrtc](const Target& target) { return why_no_device(target, nvrtc); },
          .start_worker = [](const Target& target) { return start_worker(worker_options(target)); },
          .is_calibrated = !options.is_uncalibrated,
          .calibrate_every = options.calibrate_every};
}

// What the draft model and reports want to know of this machine, for tuners elsewhere. They do without where this role
// may store no models. False: the database cannot be used.
bool store_rates(const std::string& address) {
  std::optional<Database> database = open_database(address, DatabaseMode::Write);
  if (!database) return false;
  DatabaseResult<MachineRates> rates = machine_rates(*database, /*may_measure=*/true);
  if (rates) DatabaseStatus ignored = keep_roofs(*database, *rates);
  return true;
}

// Null if none is wanted. False: it was, and cannot be had.
bool serve_metrics(const Options& options, MachineOptions& machine, std::unique_ptr<MetricsServer>& server) {
  if (!options.metrics) return true;
  machine.metrics = std::make_shared<MachineMetrics>(machine.announced.name, TW_VERSION);
  std::string error;
  OtherCores affinity(usable_threads() > 1);  // whoever asks leaves the measuring core alone
  server = MetricsServer::start(
      static_cast<int>(*options.metrics), [metrics = machine.metrics] { return metrics->text(); }, error);
  if (!server) return say(cat("--metrics: ", error)), false;
  say(cat("metrics: http://127.0.0.1:", server->port(), "/metrics"));
  return true;
}

std::string summary_of(const MachineReport& report) {
  const MachineCounts& counts = report.counts;
  std::string text = cat("measured ", counts.good + counts.failed, " trials, ", counts.failed, " of which failed");
  if (counts.faults > 0) text += cat("; ", counts.faults, " could not be measured here");
  if (counts.late + counts.repeated > 0)
    text += cat("; ", counts.late + counts.repeated, " results came too late and were ignored");
  if (report.times_aside > 0) text += cat("; ", report.times_aside, " times set aside by a calibration");
  if (report.given_back > 0) text += cat("; ", report.given_back, " trials go to other machines");
  return text;
}

int measure(const Options& options) {
  if (!is_database_address(options.database)) {
    say(cat("--database: `", options.database,
            "` is a file; machines measure for a PostgreSQL database (postgresql://HOST/NAME)"));
    return Usage;
  }
  catch_interrupts();
  if (!store_rates(options.database)) return Environment;
  MachineOptions machine = machine_options(options);
  std::unique_ptr<MetricsServer> server;
  if (!serve_metrics(options, machine, server)) return Environment;
  say(cat("this machine measures for ", join(split(machine.announced.targets, '\n'), ", "), "; Ctrl-C takes it back"));
  double begin = seconds_now();
  bool is_late = false;
  Waiting waiting{.must_stop =
                      [&] {
                        is_late = options.seconds > 0 && seconds_now() - begin >= options.seconds;
                        return stop_wanted || is_late;
                      },
                  .say = [](const std::string& text) { say(text); }};
  MachineReport report = MeasuringMachine(std::move(machine), waiting).run();
  const MachineCounts& counts = report.counts;
  if (options.json)
    print_json({{"good", counts.good},
                {"failed", counts.failed},
                {"faults", counts.faults},
                {"late", counts.late},
                {"repeated", counts.repeated},
                {"given_back", report.given_back},
                {"calibrations", report.calibrations},
                {"times_aside", report.times_aside},
                {"error", report.error}});
  else
    std::printf("%s\n", summary_of(report).c_str());
  if (!report.error.empty()) return say(report.error), Environment;
  return stop_wanted ? Interrupted : Ok;
}

}  // namespace

int run_measure(int count, char** words) {
  Options options;
  App app(
      "measure",
      "Lend this machine to the tuners of a PostgreSQL database: take trials for the processor and the devices that "
      "it has, replay\ntheir traces, compile and measure them, write the results. Ctrl-C takes the machine back: the "
      "trials at hand go to others.",
      "examples:\n  tracewright measure --database postgresql://worker@db/tw");
  app.add_option("--database", options.database, "the address, postgresql://...").required();
  app.add_option("--name", options.name, "of this machine in `tracewright fleet`; default: host and process");
  app.add_option("--seconds", options.seconds, "take the machine back after so long").positive();
  app.add_option("--metrics", options.metrics,
                 "port on 127.0.0.1 where Prometheus finds the metrics of this machine; 0 takes a free one and says it")
      .range(0, 65535);
  app.add_option("--calibrate-every", options.calibrate_every,
                 "trials between two calibrations, which take a second; 0 = only at the start")
      .range(0, 1000000000);
  app.add_flag(
      "--uncalibrated", options.is_uncalibrated,
      "count as the first class of machines of this kind, whatever the speed; for machines that others disturb");
  app.add_flag("--json", options.json, "print one JSON object at the end");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  return measure(options);
}

}  // namespace tw::cli
