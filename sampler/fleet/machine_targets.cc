#include "sampler/fleet/machine_targets.h"

#include <algorithm>
#include <array>

#include "backends/cpu_table.h"
#include "dsl/base/text.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

// The levels of the x86-64 psABI, and the width of their vectors.
struct Level {
  std::string_view cpu;
  int vector_bits;
};
constexpr std::array<Level, 4> kLevels = {
    {{"x86-64", 128}, {"x86-64-v2", 128}, {"x86-64-v3", 256}, {"x86-64-v4", 512}}};

// Kernels are functions that call none of the system's, so that the rest of a triple is no matter.
bool is_same_system(const Target& host, const Target& target) {
  return target.triple == host.triple || target.triple.empty() ||
         (architecture(target.triple) == architecture(host.triple) && target.triple.find("linux") != std::string::npos);
}

bool runs_code_for(const Target& host, const Target& target) {
  if (target.cpu == host.cpu) return true;
  const std::string family = architecture(host.triple);
  if (family == "x86_64")
    return std::ranges::any_of(
        kLevels, [&](const Level& level) { return level.cpu == target.cpu && level.vector_bits <= host.vector_bits; });
  if (family != "aarch64" || target.cpu == "apple-m1") return false;  // which has more than its level
  std::optional<ArmLevel> needed = arm_level(target.cpu), present = arm_level(host.cpu);
  return needed && present && *needed <= *present;
}

// Features that are taken away from a processor are no matter.
bool asks_for_more(const std::string& features, const std::string& of_host) {
  return features != of_host && features.find('+') != std::string::npos;
}

}  // namespace

Target processor_for_others() {
  Target target = host_target();
  if (const std::string family = architecture(target.triple); family != "x86_64") target.triple = family + "-linux-gnu";
  return target;
}

std::string why_not_on(const Target& host, const Target& target) {
  if (!is_same_system(host, target)) return cat("code for ", target.triple, " does not run here");
  if (!runs_code_for(host, target)) return cat("code for ", target.cpu, " may not run on ", host.cpu);
  if (asks_for_more(target.features, host.features)) return cat("the processor may not have ", target.features);
  if (target.threads > host.threads)
    return cat("kernels with ", target.threads, " threads do not fit: this process may use ", host.threads);
  return "";
}

std::string why_not_this_processor(const Target& target) { return why_not_on(host_target(), target); }

const std::optional<MeasuredTarget>& MachineTargets::of(const std::string& text) {
  auto [at, is_new] = known_.try_emplace(text);
  if (!is_new || text.size() > kLongestTarget) return at->second;
  Source source{"target", text};
  Diagnostics diagnostics(source);
  std::optional<Target> target = parse_target(text, 0, diagnostics);
  // Records are kept under the canonical text.
  if (!target || to_string(*target) != text) return at->second;
  if (!(is_device(*target) ? why_no_device_(*target) : why_not_this_processor(*target)).empty()) return at->second;
  std::string host = measuring_host(*target, worker_options(*target).device);
  at->second = MeasuredTarget{text, host, machine_of(host)};
  return at->second;
}

}  // namespace tw
