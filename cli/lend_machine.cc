#include "cli/lend_machine.h"

#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/devices.h"
#include "cli/interrupt.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/fleet/metrics_server.h"
#include "runtime/measure/machine_probe.h"
#include "runtime/store/postgres_address.h"
#include "sampler/fleet/machine_targets.h"
#include "sampler/fleet/measuring_machine.h"
#include "sampler/search/other_cores.h"

namespace tw::cli {
namespace {

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

MachineOptions machine_options(const MeasureFlags& options, std::shared_ptr<KernelSource> kernels,
                               const std::string& nvrtc) {
  std::string devices = devices_of_machine();
  std::function<Calibrate(Measurer&, const Target&)> calibrator;
  if (options.is_uncalibrated) calibrator = [](Measurer&, const Target&) { return Calibrate(); };
  return {.address = options.database,
          .announced = {.name = options.name.empty() ? name_of_process() : options.name,
                        .host = host_description(),
                        .version = TW_VERSION,
                        .targets = cat(to_string(processor_for_others()), devices.empty() ? "" : "\n", devices),
                        .memory_bytes = i64{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE),
                        .clock_mhz = clock_mhz(),
                        .drivers = devices},
          .why_no_device = [nvrtc](const Target& target) { return why_no_device(target, nvrtc); },
          .start_worker = [](const Target& target) { return start_worker(worker_options(target)); },
          .calibrate_every = options.calibrate_every,
          .calibrator = std::move(calibrator),
          .kernels = std::move(kernels)};
}

// "" = none was given.
bool is_name(const std::string& name) {
  return name.size() <= 100 && std::ranges::none_of(name, [](unsigned char c) { return std::iscntrl(c) != 0; });
}

// Null if none is wanted. False: it was, and cannot be had.
bool serve_metrics(const MeasureFlags& flags, MachineOptions& machine, std::unique_ptr<MetricsServer>& server) {
  if (!flags.metrics) return true;
  machine.metrics = std::make_shared<MachineMetrics>(machine.announced.name, TW_VERSION);
  std::string error;
  OtherCores affinity(usable_threads() > 1);  // whoever asks leaves the measuring core alone
  server = MetricsServer::start(
      static_cast<int>(*flags.metrics), [metrics = machine.metrics] { return metrics->text(); }, error);
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

}  // namespace

Waiting waiting_for(const MeasureFlags& flags) {
  double begin = seconds_now(), seconds = flags.seconds;
  return {.must_stop = [=] { return stop_wanted || (seconds > 0 && seconds_now() - begin >= seconds); },
          .say = [](const std::string& text) { say(text); }};
}

int lend_machine(const MeasureFlags& flags, const Waiting& waiting, std::shared_ptr<KernelSource> kernels,
                 const std::string& nvrtc) {
  MachineOptions machine = machine_options(flags, std::move(kernels), nvrtc);
  std::unique_ptr<MetricsServer> server;
  if (!serve_metrics(flags, machine, server)) return Environment;
  say(cat("this machine measures for ", join(split(machine.announced.targets, '\n'), ", "), "; Ctrl-C takes it back"));
  MachineReport report = MeasuringMachine(std::move(machine), waiting).run();
  const MachineCounts& counts = report.counts;
  if (flags.json)
    print_json({{"good", counts.good},
                {"failed", counts.failed},
                {"faults", counts.faults},
                {"late", counts.late},
                {"repeated", counts.repeated},
                {"given_back", report.given_back},
                {"calibrations", report.calibrations},
                {"times_aside", report.times_aside},
                {"error", report.error}});
  else if (report.error.empty() || counts.good + counts.failed > 0)
    std::printf("%s\n", summary_of(report).c_str());
  if (!report.error.empty() && !stop_wanted) return say(report.error), Environment;
  return stop_wanted ? Interrupted : Ok;
}

std::optional<int> parse_measure_flags(int count, char** words, MeasureFlags& flags) {
  App app(
      "measure",
      "Lend this machine to the tuners of a PostgreSQL database: take trials for the processor and the devices that "
      "it has, replay\ntheir traces, compile and measure them, write the results. Ctrl-C takes the machine back: the "
      "trials at hand go to others.\nWith --build-for: compile for machines that do not. With --built-with: measure "
      "what such a builder has compiled.",
      "examples:\n  tracewright measure --database postgresql://worker@db/tw\n"
      "  tracewright measure --database postgresql://worker@db/tw --build-for \"cpu -mcpu=x86-64-v3\" --key "
      "builder.key\n"
      "  tracewright measure --database postgresql://worker@db/tw --built-with builder.pub");
  app.add_option("--database", flags.database, "the address, postgresql://...").required();
  app.add_option("--name", flags.name, "of this machine in `tracewright fleet`; default: host and process");
  app.add_option("--seconds", flags.seconds, "take the machine back after so long").positive();
  app.add_option("--metrics", flags.metrics,
                 "port on 127.0.0.1 where Prometheus finds the metrics of this machine; 0 takes a free one and says it")
      .range(0, 65535);
  app.add_option("--calibrate-every", flags.calibrate_every,
                 "trials between two calibrations, which take a second; 0 = only at the start")
      .range(0, 1000000000);
  app.add_flag(
      "--uncalibrated", flags.is_uncalibrated,
      "count as the first class of machines of this kind, whatever the speed; for machines that others disturb");
  Option key = app.add_option("--key", flags.key, "the file of the private key that --build-for signs with");
  app.add_option("--build-for", flags.build_for,
                 "measure nothing: compile trials for machines that run this target and do not compile; may be given "
                 "several times")
      .needs(key);
  app.add_option("--built-with", flags.built_with,
                 "compile nothing: measure only code that is signed with the private key of the public one in this "
                 "file");
  app.add_flag("--json", flags.json, "print one JSON object at the end");
  if (std::optional<int> code = app.parse(count, words)) return code;
  auto refuse = [](const std::string& text) { return say(text), Usage; };
  if (!is_database_address(flags.database))
    return refuse(cat("--database: `", flags.database,
                      "` is a file; machines measure for a PostgreSQL database (postgresql://HOST/NAME)"));
  if (!is_name(flags.name)) return refuse("--name: take at most 100 letters, without control characters");
  if (!flags.build_for.empty() && !flags.built_with.empty())
    return refuse("--build-for and --built-with: a machine builds, or measures what was built");
  if (!flags.key.empty() && flags.build_for.empty()) return refuse("--key: say --build-for TARGET, too");
  catch_interrupts();
  return std::nullopt;
}

}  // namespace tw::cli
