// tracewright space: which sketches the rules give for each task of a list.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_list.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::cli {

namespace {

// The rules of the set in the order in which they run; those of the user's modules with their file.
void print_order(const LoadedList& list) {
  std::vector<std::string> names;
  for (const rules::RuleUse& use : *list.library.find_set(list.list.rules.value)) {
    bool is_own = !use.module->source->name.starts_with("rules/");
    names.push_back(is_own ? cat(use.rule->name, " (", use.module->source->name, ")") : std::string(use.rule->name));
  }
  std::printf("# rules `%s`: %s\n\n", list.list.rules.value.c_str(), join(names, ", ").c_str());
}

}  // namespace

int run_space(int count, char** words) {
  std::string file, rules, only;
  bool json = false;
  App app("space",
          "The sketches (traces with open decisions) that the rules give for each "
          "task, and how many points they have.",
          "examples:\n  tracewright space examples/gemm.yaml\n  tracewright space "
          "examples/gemm.yaml --rules none --json");
  app.add_option("FILE", file, "the task list, YAML").required();
  app.add_option("--rules", rules, "a rule set instead of the list's");
  app.add_option("--task", only, "only the task of this name");
  app.add_flag("--json", json, "print JSON");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  std::optional<LoadedList> loaded = open_list(file, rules);
  if (!loaded) return Usage;
  if (!has_task(*loaded, only)) return Usage;
  if (!json) print_order(*loaded);
  boost::json::array tasks;
  for (const TuneTask& task : loaded->tasks) {
    if (!only.empty() && task.name != only) continue;
    SpaceSummary space = summarize_space(task, loaded->library, loaded->list.rules.value);
    std::fputs(space.errors.c_str(), stderr);  // of rules that are left out
    boost::json::array sketches;
    bool is_whole = space.count <= static_cast<double>(space.sketches.size());
    std::string all = is_whole ? std::to_string(space.sketches.size())
                               : fmt::format("{} of about 10^{:.1f}", space.sketches.size(), std::log10(space.count));
    if (!json) std::printf("# task %s: %s sketches\n", task.name.c_str(), all.c_str());
    for (const SpaceSummary::Row& row : space.sketches) {
      boost::json::array names(row.rules.begin(), row.rules.end());
      sketches.push_back({{"trace", row.trace}, {"log10_points", row.log10_points}, {"rules", names}});
      if (!json)
        std::printf("\n## about 10^%.1f points, from %s\n%s", row.log10_points, join(row.rules, ", ").c_str(),
                    row.trace.c_str());
    }
    if (!json) std::printf("\n");
    tasks.push_back(
        {{"name", task.name}, {"sketches", sketches}, {"log10_sketches", std::log10(std::max(1.0, space.count))}});
  }
  if (json) print_json({{"tasks", tasks}});
  return Ok;
}

}  // namespace tw::cli
