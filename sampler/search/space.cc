#include "sampler/search/space.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>

#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "sampler/draw/tiles.h"

namespace tw {
namespace {

struct Partial {
  Schedule schedule;
  std::vector<std::string> rules;
  std::vector<std::string> makers;  // one per instruction
  bool is_doubtful = false;         // the draw at hand does not meet a condition: there may be none that meets all
};

Reject impossible_at(Str condition) { return reject("no decisions satisfy `{a}` and the conditions before it", condition); }

bool is_condition(const Instruction& step) {
  std::string_view name = step.kind->name;
  return name == "require" || name == "prefer";
}

bool is_impossible_until(const Trace& trace, std::size_t step) {
  std::vector<bool> wanted(trace.instructions().size(), false);
  std::fill(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(step) + 1, true);
  return JointPrior(trace.keeping(wanted)).is_impossible();
}

// See Sketch::condition_step; -1 = the trace has no condition.
int step_to_name(const Trace& trace, const JointPrior& prior) {
  int last = -1;
  for (std::size_t i = 0; i < trace.instructions().size(); ++i) {
    if (!is_condition(trace.instructions()[i])) continue;
    last = static_cast<int>(i);
    if (prior.is_impossible() && is_impossible_until(trace, i)) return last;
  }
  return last;
}

Sketch make_sketch(Trace trace, std::vector<std::string> rules, std::vector<std::string> makers) {
  auto prior = std::make_shared<const JointPrior>(trace);
  int step = step_to_name(trace, *prior);
  std::string condition = step < 0 ? "" : trace.print_instruction(trace.instructions()[static_cast<std::size_t>(step)]);
  return {std::move(trace), std::move(prior), std::move(rules), std::move(makers), step, std::move(condition)};
}

// Drops a fork whose conditions exclude every draw: nothing could be drawn from its sketch, which would stand where a good one was.
bool is_possible(const rules::RuleUse& use, const Schedule& schedule, const std::vector<rules::RecordedCondition>& conditions,
                 bool is_doubtful, Space& space) {
  const Trace& trace = schedule.trace();
  if (conditions.empty() || !is_doubtful || !JointPrior(trace).is_impossible()) return true;
  auto wrong = std::find_if(conditions.begin(), conditions.end() - 1, [&](const auto& condition) { return is_impossible_until(trace, condition.step); });
  const Instruction& step = trace.instructions()[wrong->step];
  std::string text = trace.print_instruction(step);
  Reject why = impossible_at(Str(text));
  why.instruction = step.kind->name;
  std::string place = cat(use.module->source->name, ":", position_of(*use.module->source, wrong->span.begin).line);
  space.rejects.push_back({std::string(use.rule->name), cat(to_string(why), " (", place, ")"), step.kind->name, why.reason});
  return false;
}

// Blocks of the program at first, last one first: consumers before producers.
std::vector<BlockId> visiting_order(const Program& program) {
  std::vector<BlockId> order;
  for_each<Block>(program.body, [&](const Block* block) { order.push_back(block->id); });
  std::reverse(order.begin(), order.end());
  return order;
}

// "at block `C` of ", or nothing for a rule that visits the program.
std::string place_of(const Program& program, BlockId id) {
  std::string place;
  for_each<Block>(program.body, [&](const Block* block) {
    if (block->id == id) place = cat("at block `", block->name, "` of ");
  });
  return place;
}

// One rule on one block for every partial sketch. A fork that an instruction rejected is no sketch, unless nothing else is left.
std::vector<Partial> apply_everywhere(const rules::RuleUse& use, const rules::Library& library, BlockId block,
                                      const rules::TargetFacts& target, std::vector<Partial> partials, Space& space,
                                      Diagnostics& diagnostics, i64& steps) {
  static const rules::Limits limits;
  std::vector<Partial> next;
  for (Partial& partial : partials) {
    if (!use.rule->visits_program && !partial.schedule.state().find_block(block)) {
      next.push_back(std::move(partial));
      continue;
    }
    rules::RuleOutcome outcome = apply_rule(use, library.declared(), partial.schedule, block, target, limits, diagnostics);
    steps += outcome.steps;
    space.rejects.insert(space.rejects.end(), outcome.rejects.begin(), outcome.rejects.end());
    const Block* visited = use.rule->visits_program ? nullptr : partial.schedule.state().find_block(block);
    RuleVisit visit{std::string(use.rule->name), std::string(visited ? visited->name : Str()), outcome.applied, outcome.unmet, 0, outcome.dropped};
    for (std::size_t i = 0; i < outcome.schedules.size(); ++i) {
      Schedule& schedule = outcome.schedules[i];
      static const std::vector<rules::RecordedCondition> none;
      const auto& conditions = i < outcome.conditions.size() ? outcome.conditions[i] : none;  // rules of plugins tell of none
      bool is_doubtful = partial.is_doubtful || std::any_of(conditions.begin(), conditions.end(), [](const auto& c) { return !c.holds; });
      if (!is_possible(use, schedule, conditions, is_doubtful, space)) continue;
      ++visit.kept;
      std::vector<std::string> names = partial.rules;
      bool changed = schedule.trace().instructions().size() > partial.schedule.trace().instructions().size();
      if (changed && (names.empty() || names.back() != use.rule->name)) names.emplace_back(use.rule->name);
      std::vector<std::string> makers = partial.makers;
      makers.resize(schedule.trace().instructions().size(), std::string(use.rule->name));
      visit.added += changed;
      next.push_back({std::move(schedule), std::move(names), std::move(makers), is_doubtful});
    }
    if (visit.kept == 0) next.push_back(std::move(partial));
    space.visits.push_back(std::move(visit));
    if (static_cast<int>(next.size()) > limits.sketches) {
      diagnostics.error(use.rule->span, cat("the task has more than ", limits.sketches, " sketches"));
    } else if (steps > limits.steps_per_task) {
      diagnostics.error(use.rule->span, cat("the rule takes more than ", limits.steps_per_task, " steps in one task"));
    }
    if (diagnostics.has_errors()) return next;
  }
  return next;
}

// The sketches that a schedule by hand makes of the untouched program.
std::vector<Partial> run_schedule(const rules::RuleUse& use, const rules::Library& library, const Program& program,
                                  const rules::TargetFacts& target, Space& space, Diagnostics& diagnostics, u64 seed) {
  std::vector<Partial> partials;
  if (program.name != use.rule->workload) return partials;
  partials.push_back({Schedule(program, seed), {}, {}, false});
  i64 steps = 0;
  std::size_t rejects = space.rejects.size();
  partials = apply_everywhere(use, library, {}, target, std::move(partials), space, diagnostics, steps);
  const RuleVisit& visit = space.visits.back();
  if (visit.applied && visit.kept == 0 && space.rejects.size() > rejects && !diagnostics.has_errors()) {
    diagnostics.error(use.rule->span, cat("the schedule does not apply to this program: ", space.rejects.back().reason));
  }
  if (visit.kept == 0) partials.clear();
  return partials;
}

// Partial sketches are done: without dead code, those with equal traces once.
void add_sketches(std::vector<Partial> partials, Space& space) {
  std::set<Hash128> seen;
  for (Partial& partial : partials) {
    const Trace& whole = partial.schedule.trace();
    std::vector<bool> live = whole.live();
    Trace trace = whole.keeping(live);
    std::vector<Decision> open(trace.sample_count());
    if (!seen.insert(trace.with_decisions(open).hash()).second) continue;
    std::vector<std::string> makers;
    for (std::size_t i = 0; i < live.size(); ++i) {
      if (live[i]) makers.push_back(partial.makers[i]);
    }
    space.sketches.push_back(make_sketch(std::move(trace), std::move(partial.rules), std::move(makers)));
  }
}

}  // namespace

std::vector<std::string> rules_without_effect(const Space& space) {
  static const rules::Library built_in = rules::Library::built_in();
  std::map<std::string, std::pair<bool, bool>> seen;  // applied, kept
  for (const RuleVisit& visit : space.visits) {
    auto& [applied, kept] = seen[visit.rule];
    applied |= visit.applied, kept |= visit.kept > 0;
  }
  std::vector<std::string> out;
  for (const auto& [rule, was] : seen) {
    if (!was.first || was.second || built_in.find_rule(rule)) continue;
    auto why = std::find_if(space.rejects.begin(), space.rejects.end(), [&](const rules::ForkReject& reject) { return reject.rule == rule && !reject.is_caught; });
    if (why != space.rejects.end()) out.push_back(cat("the rule `", rule, "` fits, but all that it does is rejected: ", why->reason));
  }
  return out;
}

Space build_space(const Program& program, const std::vector<rules::RuleUse>& uses, const rules::Library& library,
                  const rules::TargetFacts& target, std::string& errors, u64 seed, const std::function<bool()>& stop) {
  Space space;
  std::vector<Partial> partials, by_hand;
  partials.push_back({Schedule(program, seed), {}, {}, false});
  std::vector<BlockId> order = visiting_order(program);
  bool has_rules = false;
  for (const rules::RuleUse& use : uses) {
    if (use.rule->is_post) continue;
    if (stop && stop()) break;
    Diagnostics diagnostics(*use.module->source);
    std::string place;  // where it went wrong: "at block `C` of "
    if (use.rule->is_schedule()) {
      std::vector<Partial> made = run_schedule(use, library, program, target, space, diagnostics, seed);
      std::move(made.begin(), made.end(), std::back_inserter(by_hand));
    } else {
      has_rules = true;
      i64 steps = 0;
      std::vector<BlockId> visited = use.rule->visits_program ? std::vector<BlockId>{BlockId{}} : order;
      for (std::size_t i = 0; i < visited.size() && !diagnostics.has_errors() && !(stop && stop()); ++i) {
        partials = apply_everywhere(use, library, visited[i], target, std::move(partials), space, diagnostics, steps);
        if (diagnostics.has_errors()) place = place_of(program, visited[i]);
      }
    }
    if (!diagnostics.has_errors()) continue;
    errors += cat(diagnostics.render(), use.rule->kind(), " `", use.rule->name, "` is left out (", place, program.name, ")\n");
    std::vector<rules::RuleUse> others;
    std::copy_if(uses.begin(), uses.end(), std::back_inserter(others), [&](const rules::RuleUse& other) { return other.rule != use.rule; });
    return build_space(program, others, library, target, errors, seed, stop);
  }
  if (!by_hand.empty() && !has_rules) partials.clear();
  std::move(by_hand.begin(), by_hand.end(), std::back_inserter(partials));
  add_sketches(std::move(partials), space);
  return space;
}

namespace {

// "sm_90a" is 90.
i64 sm_of(const Target& target) {
  if (target.kind != TargetKind::Cuda || !target.arch.starts_with("sm_")) return 0;
  return std::atoll(target.arch.c_str() + 3);
}

}  // namespace

rules::TargetFacts facts_of(const Target& target) {
  return {.vector_bits = target.vector_bits, .vector_registers = target.vector_registers, .threads = target.threads,
          .l1_bytes = target.l1_bytes, .l2_bytes = target.l2_bytes, .l3_bytes = target.l3_bytes, .cache_line = target.cache_line,
          .group_threads = target.group_threads, .shared_bytes = target.shared_bytes, .sm = sm_of(target),
          .vtcm_bytes = target.vtcm_bytes};
}

Reject no_draw(const Sketch& sketch) {
  TW_CHECK(sketch.condition_step >= 0, "nothing can be drawn from a sketch without conditions");
  Reject why = impossible_at(Str(sketch.condition));
  why.step = sketch.condition_step;
  why.instruction = sketch.trace.instructions()[static_cast<std::size_t>(why.step)].kind->name;
  return why;
}

void add_template(Space& space, const Trace& trace) {
  space.sketches.push_back(make_sketch(trace, {"template"}, {}));
}

double log10_points(const Sketch& sketch) {
  double total = sketch.prior->log10_groups();
  std::size_t sample = 0;
  for (const Instruction& instruction : sketch.trace.instructions()) {
    if (!instruction.kind->samples) continue;
    const std::vector<i64>& candidates = sketch.prior->candidates(sample);
    bool grouped = sketch.prior->in_group(sample++);
    if (grouped) continue;
    if (!candidates.empty()) {
      total += std::log10(static_cast<double>(candidates.size()));
      continue;
    }
    std::string_view name = instruction.kind->name;
    if (name == "sample_compute_location") {
      total += std::log10(4.0);  // the usual number of places; the true one is known at replay only
      continue;
    }
    double extent = 1;
    for (int i = 0; i < instruction.decision.count; ++i) extent *= static_cast<double>(instruction.decision.values[i]);
    int n = instruction.decision.count;
    if (name == "sample_tile") {
      total += (n - 1) * std::log10(std::max(1.0, extent));  // each inner factor up to the extent
    } else {
      for (const PrimePower& power : factorize(static_cast<i64>(extent))) {
        for (int i = 1; i < n; ++i) total += std::log10((power.exponent + i) / static_cast<double>(i));  // stars and bars
      }
    }
  }
  return total;
}

}  // namespace tw
