// tracewright measure: lends this machine to the tuners of a database, or builds for machines without a compiler.
#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "backends/cuda/nvrtc.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/lend_machine.h"
#include "cli/stored.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/measure/machine_probe.h"
#include "runtime/measure/machine_roofs.h"
#include "runtime/store/server_answers.h"
#include "sampler/fleet/trial_builder.h"

namespace tw::cli {
namespace {

// What the draft model and reports want to know of this machine, for tuners elsewhere. They do without where this role
// may store no models. Takes 128 MiB of memory for a moment. A server that is away is waited for, as later. False after
// a message: the database cannot be used.
bool store_rates(const std::string& address, const Waiting& waiting) {
  std::optional<Database> database =
      checked(open_when_it_answers(address, waiting, [&] { return Database::open(address, DatabaseMode::Write); }));
  if (!database) return false;
  DatabaseResult<MachineRates> rates = machine_rates(*database, /*may_measure=*/true);
  if (rates) DatabaseStatus ignored = keep_roofs(*database, *rates);
  return true;
}

std::optional<std::vector<Target>> targets_in(const std::vector<std::string>& texts) {
  std::vector<Target> targets;
  for (const std::string& text : texts) {
    Source source{"--build-for", text};
    Diagnostics diagnostics(source);
    std::optional<Target> target = parse_target(text, 0, diagnostics);
    if (!target) return say(diagnostics.render()), std::nullopt;
    targets.push_back(std::move(*target));
  }
  return targets;
}

int build(const MeasureFlags& flags) {
  std::optional<std::vector<Target>> targets = targets_in(flags.build_for);
  if (!targets) return Usage;
  std::string error;
  std::optional<SigningKey> key = SigningKey::read(flags.key, error);
  if (!key) return say(error), Environment;
  bool is_for_cuda = std::ranges::any_of(*targets, [](const Target& t) { return t.kind == TargetKind::Cuda; });
  if (is_for_cuda && !cuda::nvrtc_version(error)) return say(error), Environment;
  std::vector<std::string> names;
  for (const Target& target : *targets) names.push_back(to_string(target));
  say(cat("this machine builds for ", join(names, ", "), ", with key ", key->name(), "; Ctrl-C ends it"));
  BuilderOptions options{.address = flags.database,
                         .announced = {.name = flags.name.empty() ? name_of_process() : flags.name,
                                       .version = TW_VERSION,
                                       .targets = join(names, "\n"),
                                       .key = key->name()},
                         .targets = std::move(*targets),
                         .threads = usable_threads()};
  BuilderReport report = TrialBuilder(std::move(options), std::move(*key), waiting_for(flags)).run();
  if (flags.json)
    print_json({{"built", report.built},
                {"failed", report.failed},
                {"faults", report.faults},
                {"late", report.late},
                {"error", report.error}});
  else
    std::printf("built %lld trials; %lld cannot be compiled, %lld ended with a fault\n",
                static_cast<long long>(report.built), static_cast<long long>(report.failed),
                static_cast<long long>(report.faults));
  if (!report.error.empty() && !stop_wanted) return say(report.error), Environment;
  return stop_wanted ? Interrupted : Ok;
}

// The program for this is a small one of its own, which such machines can have alone: it has no compiler in it.
int run_built_machine(char** words) {
  char self[PATH_MAX] = "";
  ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
  std::string path(self, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  path = cat(path.substr(0, path.rfind('/') + 1), kBuiltMachine);
  words[0] = path.data();
  execv(path.c_str(), words);
  return say(cat("--built-with: ", path, " cannot be started: ", std::strerror(errno))), Environment;
}

}  // namespace

int run_measure(int count, char** words) {
  MeasureFlags flags;
  if (std::optional<int> code = parse_measure_flags(count, words, flags)) return *code;
  if (!flags.build_for.empty()) return build(flags);
  if (!flags.built_with.empty()) return run_built_machine(words);
  const Waiting waiting = waiting_for(flags);
  if (!store_rates(flags.database, waiting)) return stop_wanted ? Interrupted : Environment;
  std::string ignored;
  return lend_machine(flags, waiting, compile_here(), cuda::nvrtc_version(ignored).value_or(""));
}

}  // namespace tw::cli
