// tracewright explain: which rules applied where, and what was rejected, how often and why.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_list.h"
#include "cli/stored.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "sampler/search/explain_space.h"

namespace tw::cli {
namespace {

struct Options {
  std::string file, rules, task;
  i64 draws = 200;
  u64 seed = 1;
  bool json = false;
};

// ---- a task list: its spaces

boost::json::object to_json(const std::string& task, const SpaceExplanation& explained) {
  boost::json::array rules, rejects;
  for (const RuleRow& row : explained.rules)
    rules.push_back({{"rule", row.rule},
                     {"block", row.block},
                     {"applied", row.applied},
                     {"sketches", row.kept},
                     {"dropped", row.dropped},
                     {"changed", row.added},
                     {"unmet", row.applied ? "" : row.unmet}});
  for (const RejectRow& row : explained.rejects)
    rejects.push_back({{"rule", row.rule},
                       {"instruction", row.instruction},
                       {"reason", row.reason},
                       {"when", row.when},
                       {"count", row.count},
                       {"example", row.example}});
  return {{"name", task},
          {"rules", rules},
          {"rejects", rejects},
          {"draws", explained.draws},
          {"rejected", explained.rejected},
          {"followed", explained.followed},
          {"log10_sketches", std::log10(std::max(1.0, explained.sketches))}};
}

// A reason without its numbers and names: "..." for each hole.
std::string without_holes(const std::string& reason) {
  std::string out;
  for (std::size_t at = 0; at < reason.size(); ++at) {
    bool is_hole = reason[at] == '{' && at + 2 < reason.size() && reason[at + 2] == '}';
    out += is_hole ? "..." : reason.substr(at, 1);
    if (is_hole) at += 2;
  }
  return out;
}

// A rule may look at a block and leave it as it is.
std::string changes_of(const RuleRow& row) {
  if (row.added == row.kept) return "";
  return row.added == 0 ? ", none changed" : fmt::format(", {} changed", row.added);
}

void print_explanation(const std::string& task, const SpaceExplanation& explained) {
  std::printf("# task %s\n", task.c_str());
  std::vector<std::vector<std::string>> rules, rejects;
  for (const RuleRow& row : explained.rules) {
    std::string outcome = !row.applied ? cat("`", row.unmet, "` is false")
                          : row.kept + row.dropped > 0
                              ? fmt::format("{} of {} forks kept{}", row.kept, row.kept + row.dropped, changes_of(row))
                              : "every fork was rejected";
    rules.push_back({row.rule, row.block.empty() ? "(program)" : row.block, row.applied ? "yes" : "no", outcome});
  }
  print_table({"rule", "block", "applied", "outcome"}, rules);
  for (const RejectRow& row : explained.rejects) {
    // The example names the instruction itself; without numbers and names it says no more than the reason.
    std::string prefix = row.instruction + ": ";
    std::string example = row.example.starts_with(prefix) ? row.example.substr(prefix.size()) : row.example;
    rejects.push_back({row.rule.empty() ? "-" : row.rule, row.instruction.empty() ? "-" : row.instruction, row.when,
                       std::to_string(row.count), without_holes(row.reason), example == row.reason ? "-" : example});
  }
  if (!rejects.empty()) {
    std::printf("\n");
    print_table({"rule", "instruction", "while", "rejected", "reason", "example"}, rejects);
  }
  if (explained.sketches > static_cast<double>(explained.followed))
    fmt::print("\nall of this is of {} sketches, of about 10^{:.1f}\n", explained.followed,
               std::log10(explained.sketches));
  std::printf("\n%lld of %lld draws rejected\n\n", static_cast<long long>(explained.rejected),
              static_cast<long long>(explained.draws));
}

int explain_list(const Options& options) {
  std::optional<LoadedList> list = open_list(options.file, options.rules);
  if (!list || !has_task(*list, options.task)) return Usage;
  boost::json::array tasks;
  for (const TuneTask& task : list->tasks) {
    if (!options.task.empty() && task.name != options.task) continue;
    std::string errors;
    const std::vector<rules::RuleUse>& uses = *list->library.find_set(list->list.rules.value);
    CandidateSpace space = make_candidate_space(task.program.program, uses, list->library, task.target, errors);
    std::fputs(errors.c_str(), stderr);
    SpaceExplanation explained = explain_space(space, task.target, options.draws, options.seed);
    if (options.json)
      tasks.push_back(to_json(task.name, explained));
    else
      print_explanation(task.name, explained);
  }
  if (options.json) print_json({{"tasks", tasks}});
  return Ok;
}

// ---- a database: failed trials

struct FailureRow {
  std::string status, error;
  i64 count = 0, example = 0;
};

std::vector<FailureRow> failures_of(const std::vector<Record>& records) {
  std::vector<FailureRow> rows;
  for (const Record& record : records) {
    if (record.ok() || !record.is_trial()) continue;  // known without measuring: no failure
    std::string error = record.error.substr(0, record.error.find('\n'));
    auto known = std::find_if(rows.begin(), rows.end(),
                              [&](const FailureRow& row) { return row.status == record.status && row.error == error; });
    if (known == rows.end()) known = rows.insert(known, {record.status, error, 0, record.id});
    ++known->count;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const FailureRow& a, const FailureRow& b) { return a.count > b.count; });
  return rows;
}

int explain_database(const Options& options) {
  std::optional<Database> database = open_database(options.file, DatabaseMode::Read);
  if (!database) return Environment;
  std::optional<std::vector<TaskSummary>> tasks = find_tasks(*database, options.task);
  if (!tasks) return Usage;
  boost::json::array all;
  for (const TaskSummary& task : *tasks) {
    std::optional<std::vector<Record>> records = checked(database->all(task.workload, task.target));
    if (!records) return Environment;
    boost::json::array failures;
    std::vector<std::vector<std::string>> rows;
    for (const FailureRow& row : failures_of(*records)) {
      failures.push_back({{"status", row.status}, {"error", row.error}, {"count", row.count}, {"record", row.example}});
      rows.push_back({std::to_string(row.count), row.status, std::to_string(row.example), row.error});
    }
    all.push_back({{"name", task.task}, {"trials", records->size()}, {"failures", failures}});
    if (options.json) continue;
    std::printf("# task %s: %zu trials%s\n", task.task.c_str(), records->size(), rows.empty() ? ", none failed" : "");
    if (!rows.empty()) print_table({"failed", "status", "record", "error"}, rows);
    std::printf("\n");
  }
  if (options.json) print_json({{"tasks", all}});
  return Ok;
}

}  // namespace

int run_explain(int count, char** words) {
  Options options;
  App app("explain",
          "Of a task list: which rules applied to which blocks, why not to the others, and which steps were "
          "rejected (rule, instruction, reason,\n"
          "count, an example), while the space was built and in random draws. Of a database: the trials that "
          "failed, by reason.",
          "examples:\n  tracewright explain examples/gemm.yaml --draws 1000\n  tracewright explain "
          "tuning.db --json");
  app.add_option("FILE", options.file, "a task list (.yaml) or a database").required();
  app.add_option("--rules", options.rules, "a rule set instead of the list's");
  app.add_option("--task", options.task, "only the task of this name");
  app.add_option("--draws", options.draws, "random draws for each task").range(0, 1000000);
  app.add_option("--seed", options.seed, "of the draws");
  app.add_flag("--json", options.json, "print JSON");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  bool is_list = options.file.ends_with(".yaml") || options.file.ends_with(".yml");
  return is_list ? explain_list(options) : explain_database(options);
}

}  // namespace tw::cli
