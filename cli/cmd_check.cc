// tracewright check: is a rule module sound? Its text, what it fits, what it adds, and a proof by
// running.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/text/workload.h"
#include "rules/lang/rule_modules.h"
#include "runtime/console/output.h"
#include "runtime/store/trace_file.h"
#include "sampler/search/check_rule.h"

namespace tw::cli {
namespace {

struct Options {
  std::string file, rule, workload, use, target = "cpu";
  std::vector<std::string> operators;
  int draws = 200;
  u64 seed = 1;
  bool json = false;
};

// What is checked together: one rule alone, or a set of the module.
struct Subject {
  std::string kind, name, doc;
  std::vector<rules::RuleUse> uses;
};

std::vector<Subject> subjects_of(const std::shared_ptr<const rules::Module>& module, const rules::Library& library,
                                 const std::string& only) {
  std::vector<Subject> subjects;
  for (const rules::Rule& rule : module->rules) {
    if (!only.empty() && rule.name != only) continue;
    subjects.push_back({rule.kind(), std::string(rule.name), std::string(rule.doc), {{&rule, module, {}, module}}});
  }
  for (const rules::RuleSet& set : module->sets) {
    if (!only.empty() && set.name != only) continue;
    subjects.push_back({"set", std::string(set.name), "", *library.find_set(set.name)});
  }
  return subjects;
}

// A use of a workload of the user's own.
std::optional<std::vector<TrialProgram>> own_program(const std::string& file, const std::string& use_text) {
  std::optional<std::string> text = read_file(file);
  if (!text) return std::nullopt;
  Source source{file, *text}, use_source{"--use", use_text};
  Diagnostics diagnostics(source), use_diagnostics(use_source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  std::optional<WorkloadUse> use = parse_use(use_source, use_diagnostics);
  std::optional<OwnedProgram> program;
  if (use && !diagnostics.has_errors()) {
    std::vector<CallProblem> problems = check_call(module, use->workload, use->arguments, {});
    for (const CallProblem& problem : problems)
      use_diagnostics.error({0, use_text.size()}, problem.message, problem.note);
    if (problems.empty()) program = instantiate(module, use->workload, use->arguments, {}, diagnostics);
  }
  std::fputs((diagnostics.render() + use_diagnostics.render()).c_str(), stderr);
  if (!program) return std::nullopt;
  std::vector<TrialProgram> programs;
  programs.push_back({use_text, std::move(*program)});
  return programs;
}

std::optional<std::vector<TrialProgram>> chosen_programs(const Options& options) {
  if (!options.use.empty()) return own_program(options.workload, options.use);
  const std::vector<std::string>& operators = options.operators;
  std::vector<TrialProgram> all = trial_programs(), chosen;
  if (operators.empty()) return all;
  for (const std::string& name : operators) {
    std::vector<std::string> names;
    std::size_t before = chosen.size();
    for (const TrialProgram& program : all) {
      names.push_back(program.use.substr(0, program.use.find('(')));
      if (names.back() == name) chosen.push_back(program);
    }
    if (chosen.size() > before) continue;
    std::string near = closest(name, names);
    say(cat("--op: no operator `", name, "`; ",
            near.empty() ? cat("there are ", join(names, ", ")) : cat("did you mean `", near, "`?")));
    return std::nullopt;
  }
  return chosen;
}

// Those that a schedule may be for: the library's, and those in the file of --workload.
std::vector<std::string> workload_names(const Options& options) {
  std::vector<std::string> names;
  for (const Signature& signature : signatures(operator_library())) names.push_back(signature.name);
  std::optional<std::string> text = options.workload.empty() ? std::nullopt : read_file(options.workload);
  if (!text) return names;
  Source source{options.workload, *text};
  Diagnostics diagnostics(source);  // own_program has said them
  for (const Signature& signature : signatures(parse_workloads(source, diagnostics))) names.push_back(signature.name);
  return names;
}

std::string trace_of(const Counterexample& found, const Target& target) {
  return print_trace_file({TW_VERSION, to_string(target), found.failing.program, found.failing.trace});
}

// The counterexample made small, as a trace file.
Counterexample reduced(const Counterexample& found, const Target& target) {
  auto fails = [&](const FailingCase& next) {
    std::string why = failure_of(next, target);
    return !why.empty() && !why.starts_with("rejected: ");
  };
  FailingCase small = reduce(found.failing, fails).result;
  return {found.use, failure_of(small, target), std::move(small)};
}

boost::json::object to_json(const Subject& subject, const RuleCheck& check, const std::optional<Counterexample>& small,
                            const Target& target) {
  boost::json::array matches;
  for (const Match& match : check.matches)
    matches.push_back({{"use", match.use}, {"block", match.block}, {"sketches", match.sketches}});
  boost::json::object misses, rejects, draw_rejects;
  for (const auto& [part, places] : check.misses) misses[part] = boost::json::array(places.begin(), places.end());
  for (const auto& [reason, count] : check.rejects) rejects[reason] = count;
  for (const auto& [reason, count] : check.draw_rejects) draw_rejects[reason] = count;
  boost::json::object out{
      {"kind", subject.kind},
      {"name", subject.name},
      {"matches", matches},
      {"misses", misses},
      {"rejects", rejects},
      {"programs", check.programs},
      {"sketches", check.sketches},
      {"draws", check.draws},
      {"rejected", check.rejected},
      {"draw_rejects", draw_rejects},
      {"different", check.different},
      {"tile_levels", check.all_tile_levels().drawn},
      {"tile_levels_above_one", check.all_tile_levels().above_one},
      {"prior_tile_levels",
       {{"drawn", check.prior_tile_levels.drawn}, {"above_one", check.prior_tile_levels.above_one}}},
      {"rarest_tile_level",
       {{"drawn", check.rarest_tile_level().drawn}, {"above_one", check.rarest_tile_level().above_one}}}};
  if (small)
    out["counterexample"] = {
        {"use", small->use}, {"difference", small->difference}, {"trace_file", trace_of(*small, target)}};
  return out;
}

// Why a schedule is for none of the chosen programs; "" if it is for one of them, or is no schedule.
std::string why_not_tried(const Subject& subject, const RuleCheck& check, const std::vector<std::string>& workloads) {
  const rules::Rule* rule = subject.uses.empty() || subject.kind == "set" ? nullptr : subject.uses[0].rule;
  bool is_tried = !check.matches.empty() || !check.misses.empty() || check.draws > 0;
  if (!rule || !rule->is_schedule() || is_tried) return "";
  std::string name(rule->workload);
  if (std::ranges::count(workloads, name) > 0) return cat("is for `", name, "`, and was not tried");
  std::string near = closest(name, workloads);
  return cat("is for `", name, "`, which none of the programs is: ",
             near.empty() ? "name one with --workload and --use" : cat("did you mean `", near, "`?"));
}

void print_matches(const Subject& subject, const RuleCheck& check, const std::string& not_tried) {
  bool is_unmatched = check.matches.empty() && check.draws == 0;
  if (!not_tried.empty())
    std::printf("  %s\n", not_tried.c_str());
  else if (is_unmatched)
    std::printf("  fits %s\n",
                subject.uses[0].rule->is_schedule() ? "none of the programs" : "no block of the operator library");
  for (const Match& match : check.matches)
    std::printf("  fits %s%s: %d %s\n", match.use.c_str(),
                match.block.empty() ? "" : cat(", block ", match.block).c_str(), match.sketches,
                match.sketches == 1 ? "sketch" : "sketches");
  for (const auto& [part, places] : check.misses)
    std::printf("  `%s` is false for %s\n", part.c_str(), join(places, ", ").c_str());
  for (const auto& [reason, count] : check.rejects)
    std::printf("  rejected %d times while the space was built: %s\n", count, reason.c_str());
}

void print_check(const Subject& subject, const RuleCheck& check, const std::string& not_tried,
                 const std::optional<Counterexample>& small, const Target& target) {
  std::printf("%s %s%s\n", subject.kind.c_str(), subject.name.c_str(),
              subject.doc.empty() ? "" : cat(": ", subject.doc).c_str());
  if (subject.kind != "set") print_matches(subject, check, not_tried);
  if (check.draws) {
    std::printf("  %d sketches of %d programs; %d draws ran: %d rejected, %d computed something else\n", check.sketches,
                check.programs, check.draws, check.rejected, check.different);
  }
  if (check.adds_nothing) std::printf("  the %s adds no sketch anywhere\n", subject.kind.c_str());
  RuleCheck::Level all = check.all_tile_levels(), rarest = check.rarest_tile_level();
  if (all.drawn)
    std::printf(
        "  %.0f %% of all drawn tile levels were above 1, the rarest level in %.0f %% of its draws; most draws are the "
        "best of %d in this, "
        "of the prior's own %.0f %% are\n",
        100.0 * all.above_one / all.drawn, 100.0 * rarest.above_one / rarest.drawn, RuleCheck::kMostTries,
        100.0 * check.prior_tile_levels.above_one / std::max(1, check.prior_tile_levels.drawn));
  for (const auto& [reason, count] : check.draw_rejects)
    std::printf("  draws rejected %d times: %s\n", count, reason.c_str());
  if (small)
    std::printf("  computes something else at %s, reduced: %s\n\n%s\n", small->use.c_str(), small->difference.c_str(),
                trace_of(*small, target).c_str());
}

int check_module(const Options& options, const Target& target) {
  rules::Library library = rules::Library::built_in();
  rules::RuleModules modules(library);
  std::shared_ptr<const rules::Module> module = modules.add_file(options.file);
  std::fputs(modules.errors().c_str(), stderr);
  if (!module) return Usage;
  std::optional<std::vector<TrialProgram>> programs = chosen_programs(options);
  if (!programs) return Usage;
  std::vector<Subject> subjects = subjects_of(module, library, options.rule);
  if (subjects.empty()) return say(cat(options.file, ": nothing to check")), Usage;
  const std::vector<std::string> workloads = workload_names(options);
  int code = Ok;
  bool is_wrong = false;  // some text: the other subjects are looked at all the same
  bool is_tried = false;  // one of them
  boost::json::array all;
  for (const Subject& subject : subjects) {
    RuleCheck check = check_rule(subject.uses, library, *programs, target, options.draws, options.seed);
    if (!check.errors.empty()) {
      std::fputs(check.errors.c_str(), stderr);
      is_wrong = true;
      continue;
    }
    std::optional<Counterexample> small;
    if (check.counterexample) small = reduced(*check.counterexample, target);
    std::string not_tried = why_not_tried(subject, check, workloads);
    is_tried |= not_tried.empty();
    bool is_for_nothing =
        !not_tried.empty() && std::ranges::count(workloads, std::string(subject.uses[0].rule->workload)) == 0;
    bool is_proven =
        !check.different && !check.adds_nothing && !(check.draws && check.rejected == check.draws) && !is_for_nothing;
    if (!is_proven) code = TargetMissed;
    if (options.json)
      all.push_back(to_json(subject, check, small, target));
    else
      print_check(subject, check, not_tried, small, target);
  }
  if (code == Ok && !is_tried) code = TargetMissed;
  if (options.json && (!is_wrong || !all.empty())) print_json({{"file", options.file}, {"checked", all}});
  return is_wrong ? Usage : code;
}

}  // namespace

int run_check(int count, char** words) {
  Options options;
  App app(
      "check",
      "Check a rule module: its text, which blocks of the operator library each rule fits and why "
      "not the others, the sketches that it\n"
      "makes, and a proof by running: random draws are compared with the program in the "
      "interpreter, scheduled and lowered.\n"
      "Exit code 1: a draw computes something else (its trace is printed, reduced), every draw "
      "is rejected, there is nothing to draw, or the rule fits and adds no sketch. Schedules for other programs than "
      "the chosen\n"
      "ones are left aside.",
      "examples:\n  tracewright check my_rules.tw\n  tracewright check my_rules.tw --rule pack "
      "--op dense --draws 1000 --json");
  app.add_option("FILE", options.file, "the rule module (.tw)").required();
  app.add_option("--rule", options.rule, "only the rule or set of this name");
  app.add_option("--op", options.operators, "only this operator of the library; may be repeated");
  Option workload = app.add_option("--workload", options.workload, "instead of the library: a workload file");
  Option use = app.add_option("--use", options.use, "how to use it, e.g. \"banded(M = 16, B = 2)\"");
  use.needs(workload);
  workload.needs(use);
  app.add_option("--draws", options.draws, "draws to compare for each rule and set").range(1, 1000000);
  app.add_option("--target", options.target, "what rules see of the machine");
  app.add_option("--seed", options.seed, "of the draws");
  app.add_flag("--json", options.json, "print JSON");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  Source source{"--target", options.target};
  Diagnostics diagnostics(source);
  std::optional<Target> target = parse_target(options.target, 0, diagnostics);
  std::fputs(diagnostics.render().c_str(), stderr);
  return target ? check_module(options, *target) : Usage;
}

}  // namespace tw::cli
