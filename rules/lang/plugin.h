// Rules in C++, for what the rule language cannot say: what a plugin implements, and how it says which tracewright it
// was built for. A plugin is a shared library that links libtracewright; task lists name it under `modules:` like a
// text module. It is no sandbox: apply() runs in the process of the search. A rule is run in a child process first: if
// it crashes, hangs or ends the process there, it is left out; a postprocessor is tried so on a few draws.
// docs/cpp_api.md has an example.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dsl/schedule/schedule.h"
#include "rules/lang/value.h"

namespace tw::rules {

// One rule, tried on every block. Instances are shared between threads and must not change.
class NativeRule {
 public:
  virtual ~NativeRule() = default;
  virtual std::string name() const = 0;  // a name as in the language, `pack_twice`
  virtual std::string doc() const = 0;   // one sentence
  // "" if the rule fits the block, else what is missing: it is printed by `check` and `explain`.
  virtual std::string unmet(const State& state, const Block& block, const TargetFacts& target) const = 0;
  // The sketches that the rule makes of `base`: forks of it with further instructions. An instruction that was rejected
  // goes to `rejects`, its fork nowhere. How many there are must not depend on what was drawn: pass samples on as
  // Arg::of_value.
  virtual std::vector<Schedule> apply(const Schedule& base, BlockId block, const TargetFacts& target,
                                      std::vector<Reject>& rejects) const = 0;
};

// One postprocessor: visits a concrete program, after the draw. Instances are shared between threads and must not
// change.
class NativePost {
 public:
  virtual ~NativePost() = default;
  virtual std::string name() const = 0;
  virtual std::string doc() const = 0;
  // Applies instructions. A Reject rejects the candidate. What it does must depend on the program and the target only:
  // the same is done in the search, where only the program counts, and where the trace is written.
  virtual Status apply(Schedule& schedule, const TargetFacts& target) const = 0;
};

// What a plugin exports; the first two fields stay as they are in every version.
struct PluginEntry {
  int interface;
  const char* version;  // of tracewright at the time of building
  std::vector<std::shared_ptr<const NativeRule>> (*make_rules)() = nullptr;
  std::vector<std::shared_ptr<const NativePost>> (*make_posts)() = nullptr;
};
inline constexpr int plugin_interface = 2;
inline constexpr const char* plugin_symbol = "tracewright_plugin";

}  // namespace tw::rules

// In one file of a plugin: TW_PLUGIN(make_rules) or TW_PLUGIN(make_rules, make_posts); either may be nullptr.
#define TW_PLUGIN(...)                                                                                   \
  extern "C" __attribute__((visibility("default"))) const tw::rules::PluginEntry* tracewright_plugin() { \
    static const tw::rules::PluginEntry entry{tw::rules::plugin_interface, TW_VERSION, __VA_ARGS__};     \
    return &entry;                                                                                       \
  }
