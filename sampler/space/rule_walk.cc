#include "sampler/space/rule_walk.h"

#include <algorithm>
#include <iterator>

#include "dsl/base/check.h"
#include "dsl/base/text.h"

namespace tw {

Reject impossible_at(Str condition) {
  return reject("no decisions satisfy `{a}` and the conditions before it", condition);
}

namespace {

bool is_condition(const Instruction& step) { return step.kind->meaning.is_condition || step.kind->meaning.is_weight; }

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

// See Sketch::decided.
std::size_t decided_after(const Trace& trace, const JointPrior& prior) {
  const std::vector<Instruction>& instructions = trace.instructions();
  std::size_t count = instructions.size();
  auto decides = [&](const Instruction& i) {
    return i.kind->samples || (i.kind->meaning.is_condition && !prior.satisfies(i));
  };
  while (count > 0 && !decides(instructions[count - 1])) --count;
  return count;
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

const rules::Limits kLimits;

// For each value of the trace that a schedule recorded, without the instructions that are not live: which loop it is.
std::vector<LoopId> loops_of_values(const Schedule& schedule, const std::vector<bool>& live) {
  std::vector<LoopId> loops;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const Instruction& step = schedule.trace().instructions()[i];
    for (u32 result = 0; live[i] && result < step.results; ++result) {
      const Value& value = schedule.state().values()[step.first_result + result];
      loops.push_back(value.tag == Value::Tag::Loop ? LoopId{static_cast<u32>(value.payload)} : LoopId{});
    }
  }
  return loops;
}

}  // namespace

Sketch make_sketch(Trace trace, std::vector<std::string> rules, Extents extents) {
  auto prior = std::make_shared<const JointPrior>(trace, std::move(extents));
  int step = step_to_name(trace, *prior);
  std::size_t decided = decided_after(trace, *prior);
  std::string condition = step < 0 ? "" : trace.print_instruction(trace.instructions()[static_cast<std::size_t>(step)]);
  return {.trace = std::move(trace),
          .prior = std::move(prior),
          .rules = std::move(rules),
          .makers = {},
          .places = {},
          .forks = {},
          .decided = decided,
          .condition_step = step,
          .condition = std::move(condition)};
}

Sketch finished(Partial partial, const Program& base) {
  const Trace& whole = partial.schedule.trace();
  std::vector<bool> live = whole.live();
  Trace trace = whole.keeping(live);
  Extents extents(trace, base, loops_of_values(partial.schedule, live));
  Sketch sketch = make_sketch(std::move(trace), std::move(partial.rules), std::move(extents));
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    sketch.makers.push_back(std::move(partial.makers[i]));
    if (!partial.places.empty()) sketch.places.push_back(partial.places[i]);
  }
  sketch.forks = std::move(partial.forks);
  return sketch;
}

// False for a fork whose conditions exclude every draw: nothing could be drawn from its sketch, which would stand where
// a good one was.
bool RuleWalk::is_possible(const rules::RuleUse& use, const Schedule& schedule,
                           const std::vector<rules::RecordedCondition>& conditions, bool is_doubtful) {
  const Trace& trace = schedule.trace();
  if (conditions.empty() || !is_doubtful || !JointPrior(trace).is_impossible()) return true;
  auto wrong = std::find_if(conditions.begin(), conditions.end() - 1,
                            [&](const auto& condition) { return is_impossible_until(trace, condition.step); });
  const Instruction& step = trace.instructions()[wrong->step];
  std::string text = trace.print_instruction(step);
  Reject why = impossible_at(Str(text));
  why.instruction = step.kind->name;
  std::string place = cat(wrong->source->name, ":", position_of(*wrong->source, wrong->span.begin).line);
  notes_.rejects.push_back(
      {std::string(use.rule->name), cat(to_string(why), " (", place, ")"), step.kind->name, why.reason});
  return false;
}

// What one rule makes of one block of one partial sketch; nothing = it stays as it is. A fork that an instruction
// rejected is no sketch.
std::vector<Partial> RuleWalk::go_on(const rules::RuleUse& use, BlockId block, int place, const Partial& from,
                                     const Ways& ways, Diagnostics& diagnostics, i64& steps) {
  const rules::Declared& declared = setting_.library.declared();
  const Fork* only = ways.only && !use.rule->native ? ways.only(place) : nullptr;
  rules::RuleOutcome outcome;
  if (only) {
    outcome = apply_rule(use, declared, from.schedule, block, setting_.target, kLimits, diagnostics, &only->choices);
    if (outcome.choices.size() != 1 || outcome.choices[0] != only->choices) only = nullptr;
  }
  if (!only) outcome = apply_rule(use, declared, from.schedule, block, setting_.target, kLimits, diagnostics);
  steps += outcome.steps;
  notes_.rejects.insert(notes_.rejects.end(), outcome.rejects.begin(), outcome.rejects.end());
  const Block* visited = use.rule->visits_program ? nullptr : from.schedule.state().find_block(block);
  RuleVisit visit{std::string(use.rule->name),
                  std::string(visited ? visited->name : Str()),
                  outcome.applied,
                  outcome.unmet,
                  0,
                  outcome.dropped};
  std::vector<Partial> next;
  for (std::size_t i = 0; i < outcome.schedules.size(); ++i) {
    Schedule& schedule = outcome.schedules[i];
    static const std::vector<rules::RecordedCondition> none;
    const auto& conditions =
        i < outcome.conditions.size() ? outcome.conditions[i] : none;  // rules of plugins tell of none
    bool is_doubtful =
        from.is_doubtful || std::any_of(conditions.begin(), conditions.end(), [](const auto& c) { return !c.holds; });
    if (!is_possible(use, schedule, conditions, is_doubtful)) continue;
    std::size_t instructions = schedule.trace().instructions().size();
    bool changed = instructions > from.schedule.trace().instructions().size();
    Partial made{.schedule = std::move(schedule),
                 .rules = from.rules,
                 .makers = from.makers,
                 .places = from.places,
                 .forks = from.forks,
                 .is_doubtful = is_doubtful,
                 .weight = from.weight};
    if (changed && (made.rules.empty() || made.rules.back() != use.rule->name)) made.rules.emplace_back(use.rule->name);
    made.makers.resize(instructions, std::string(use.rule->name));
    made.places.resize(instructions, place);
    made.forks.push_back(
        {place, visit.kept++, 0, i < outcome.choices.size() ? outcome.choices[i] : std::vector<rules::Choice>{}});
    visit.added += changed;
    next.push_back(std::move(made));
  }
  for (Partial& made : next) {
    if (only)
      made.forks.back() = *only;
    else if (next.size() == 1)
      made.forks.pop_back();
    else
      made.forks.back().count = static_cast<int>(next.size());
  }
  notes_.visits.push_back(std::move(visit));
  return next;
}

std::vector<Partial> RuleWalk::visit(const rules::RuleUse& use, BlockId block, int place, std::vector<Partial> partials,
                                     const Ways& ways, Diagnostics& diagnostics, i64& steps) {
  std::vector<Partial> next;
  for (Partial& partial : partials) {
    std::vector<Partial> made;
    bool is_there = use.rule->visits_program || partial.schedule.state().find_block(block);
    if (is_there) made = go_on(use, block, place, partial, ways, diagnostics, steps);
    if (made.empty()) made.push_back(std::move(partial));
    std::move(made.begin(), made.end(), std::back_inserter(next));
    if (steps > kLimits.steps_per_task) {
      diagnostics.error(use.rule->span, cat("the rule takes more than ", kLimits.steps_per_task, " steps in one task"));
    }
    if (diagnostics.has_errors()) return next;
  }
  if (ways.keep) ways.keep(place, next);
  return next;
}

bool RuleWalk::has_rules() const {
  return std::any_of(uses_.begin(), uses_.end(),
                     [](const rules::RuleUse& use) { return !use.rule->is_post && !use.rule->is_schedule(); });
}

std::vector<Partial> RuleWalk::run(const Ways& ways, u64 seed) {
  std::vector<Partial> partials;
  partials.push_back(
      {.schedule = Schedule(setting_.program, seed), .rules = {}, .makers = {}, .places = {}, .forks = {}});
  std::vector<BlockId> order = visiting_order(setting_.program);
  int place = 0;
  for (const rules::RuleUse& use : uses_) {
    if (use.rule->is_post || use.rule->is_schedule()) continue;
    Diagnostics diagnostics(*use.module->source);
    i64 steps = 0;
    for (BlockId block : use.rule->visits_program ? std::vector<BlockId>{BlockId{}} : order) {
      if (ways.stop && ways.stop()) return partials;
      partials = visit(use, block, place++, std::move(partials), ways, diagnostics, steps);
      if (!diagnostics.has_errors()) continue;
      failed_ = &use;
      error_ = cat(diagnostics.render(), use.rule->kind(), " `", use.rule->name, "` is left out (",
                   place_of(setting_.program, block), setting_.program.name, ")\n");
      return partials;
    }
  }
  return partials;
}

std::vector<Partial> RuleWalk::run_schedule(const rules::RuleUse& use, u64 seed, Diagnostics& diagnostics) {
  if (setting_.program.name != use.rule->workload) return {};
  i64 steps = 0;
  std::size_t rejects = notes_.rejects.size();
  Partial start{.schedule = Schedule(setting_.program, seed), .rules = {}, .makers = {}, .places = {}, .forks = {}};
  std::vector<Partial> made = go_on(use, {}, -1, start, {}, diagnostics, steps);
  for (Partial& partial : made) partial.forks.clear(), partial.places.clear();
  if (made.empty() && notes_.visits.back().applied && notes_.rejects.size() > rejects && !diagnostics.has_errors()) {
    diagnostics.error(use.rule->span,
                      cat("the schedule does not apply to this program: ", notes_.rejects.back().reason));
  }
  return made;
}

}  // namespace tw
