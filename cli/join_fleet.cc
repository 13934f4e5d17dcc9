#include "cli/join_fleet.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu_table.h"
#include "backends/cuda/nvrtc.h"
#include "cli/commands.h"
#include "cli/devices.h"
#include "cli/interrupt.h"
#include "cli/stored.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/measure/machine_probe.h"
#include "runtime/store/postgres_address.h"
#include "runtime/store/server_answers.h"
#include "sampler/search/trial.h"

namespace tw::cli {

std::string why_no_worker(const Target& target) {
  if (!is_device(target))
    return architecture(target.triple) == architecture("") ? "" : cat("code for ", target.triple, " does not run here");
  std::string ignored, nvrtc;
  if (target.kind == TargetKind::Cuda) nvrtc = cuda::nvrtc_version(ignored).value_or("");
  return why_no_device(target, nvrtc);
}

bool check_measure_on(const std::string& said, const std::string& database, bool replays) {
  bool is_known = said == kHere || said == kFleet;
  if (!is_known) return say(cat("--measure-on: expected `here` or `fleet`, found `", said, "`")), false;
  if (said == kFleet && replays)
    return say("--replay-measurements measures nothing: leave --measure-on fleet away"), false;
  if (said == kFleet && !is_database_address(database))
    return say(cat("--measure-on fleet: `", database,
                   "` is a file; machines measure for a PostgreSQL database (--database postgresql://HOST/NAME)")),
           false;
  return true;
}

std::string why_not_this_machine(const TuneTask& task) {
  if (task.machine.empty()) return "";
  FleetMachine here{.version = TW_VERSION, .memory_bytes = i64{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE)};
  here.clock_mhz = 100 * std::llround(measure_clock() * 1e-8);
  std::string host = measuring_host(task.target, worker_options(task.target).device);
  std::string fingerprint = fingerprint_of(here, host, /*number=*/1);
  if (is_wanted_machine(task.machine, fingerprint)) return "";
  return cat(task.name, " is for a machine that is `", task.machine, "`, and this one is `", fingerprint, "`");
}

std::string where_to_measure(const std::vector<TuneTask>& tasks, const std::string& database) {
  if (!is_database_address(database)) return kHere;
  for (const TuneTask& task : tasks) {
    std::string why = why_no_worker(task.target);
    if (why.empty()) why = why_not_this_machine(task);
    if (why.empty()) continue;
    say(cat(why, "; the machines of ", database, " measure"));
    return kFleet;
  }
  return kHere;
}

std::unique_ptr<TunerLink> join_fleet(const std::vector<TuneTask>& tasks, const std::string& address,
                                      Database& database, TuneOptions& tuning, int& code) {
  code = Environment;
  double begin = seconds_now();
  auto passed = [begin] { return seconds_now() - begin; };
  Waiting waiting{.must_stop = [&] { return stop_wanted || (tuning.seconds > 0 && passed() >= tuning.seconds); },
                  .say = [](const std::string& text) { say(text); }};
  std::optional<std::unique_ptr<TunerLink>> link =
      checked(open_when_it_answers(address, waiting, [&] { return TunerLink::open(address, name_of_process()); }));
  if (!link) return nullptr;
  const Target& target = tasks[0].target;
  std::optional<MeasuredTarget> machine = (*link)->machine_for(to_string(target), waiting, tasks[0].machine);
  if (!machine) {
    code = !(*link)->error().empty() ? Environment : stop_wanted ? Interrupted : TargetMissed;
    say(code == Environment   ? (*link)->error()
        : code == Interrupted ? "interrupted; no machine was there yet, nothing was measured"
                              : cat("no machine measured for `", to_string(target), "` within ", tuning.seconds, " s"));
    return nullptr;
  }
  if (tuning.seconds > 0) tuning.seconds = std::max(tuning.seconds - passed(), 0.001);
  if (!is_device(target)) {
    std::optional<MachineRates> rates = checked(stored_rates(database, without_class(machine->host)));
    if (!rates) return nullptr;
    tuning.rates = *rates;
  }
  return std::move(*link);
}

}  // namespace tw::cli
