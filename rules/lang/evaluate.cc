#include "rules/lang/evaluate.h"

#include <atomic>

#include "dsl/ir/build.h"
#include "dsl/ir/walk.h"
#include "rules/lang/evaluator.h"
#include "rules/lang/guard_call.h"
#include "rules/lang/plugin.h"
#include "rules/lang/try_in_child.h"

namespace tw::rules {

const char* name_of(RuleValue::Tag tag) {
  constexpr const char* names[] = {"none",    "a boolean",  "an integer",    "a text",   "a list",      "a loop",
                                   "a block", "a function", "an open value", "a number", "a dictionary"};
  return names[static_cast<int>(tag)];
}

i64 parts_of(const Arg& arg, i64 most) {
  i64 parts = 1;
  for (const Arg& item : arg.items) {
    if (parts >= most) return most;
    parts += parts_of(item, most - parts);
  }
  return parts;
}

bool same(const RuleValue& a, const RuleValue& b) {
  using Tag = RuleValue::Tag;
  if (a.tag != b.tag) return false;
  if (a.tag == Tag::Text) return a.text == b.text;
  if (a.tag == Tag::Lambda) return a.lambda == b.lambda && a.scope == b.scope;
  if (a.tag == Tag::Open)
    return a.open.tag == b.open.tag && a.open.integer == b.open.integer && a.open.items.data() == b.open.items.data();
  if (a.tag == Tag::Number) return a.number == b.number;
  if (a.tag == Tag::Dictionary && *a.keys != *b.keys) return false;
  if (!a.has_items()) return a.integer == b.integer;
  return a.list == b.list || std::equal(a.list->begin(), a.list->end(), b.list->begin(), b.list->end(), same);
}

std::optional<i64> exact(BinaryOp op, i64 a, i64 b) {
  i64 result = 0;
  bool is_division = op == BinaryOp::FloorDiv || op == BinaryOp::FloorMod;
  if (is_division && b == -1 && __builtin_sub_overflow(i64{0}, a, &result)) return std::nullopt;
  if (op == BinaryOp::Add && __builtin_add_overflow(a, b, &result)) return std::nullopt;
  if (op == BinaryOp::Sub && __builtin_sub_overflow(a, b, &result)) return std::nullopt;
  if (op == BinaryOp::Mul && __builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return fold(op, a, b);
}

const std::vector<TargetMember>& target_members() {
  static const std::vector<TargetMember> members = {
      {"cache_line", &TargetFacts::cache_line, "Bytes of a cache line."},
      {"group_threads", &TargetFacts::group_threads, "Most threads of a work-group of a device."},
      {"l1_bytes", &TargetFacts::l1_bytes, "Bytes of the first data cache of a core."},
      {"l2_bytes", &TargetFacts::l2_bytes, "Bytes of the second cache of a core."},
      {"l3_bytes", &TargetFacts::l3_bytes, "Bytes of the last cache; 0 = none."},
      {"shared_bytes", &TargetFacts::shared_bytes, "Bytes of memory that a work-group of a device shares."},
      {"sm", &TargetFacts::sm, "Which CUDA architecture: 80 is sm_80; 0 where it is none."},
      {"threads", &TargetFacts::threads, "Threads that a kernel may use."},
      {"vector_bits", &TargetFacts::vector_bits, "Bits of a vector register."},
      {"vector_registers", &TargetFacts::vector_registers, "How many vector registers there are."},
      {"vtcm_bytes", &TargetFacts::vtcm_bytes, "Bytes of memory in scope global.vtcm (Hexagon); 0 = none."},
      {"wgmma", &TargetFacts::wgmma, "1: matrix instructions of four warps (sm_90a), else 0."}};
  return members;
}

Evaluator::Evaluator(const RuleUse& use, const Declared& declared, Sink sink, const TargetFacts& target,
                     const Limits& limits, Diagnostics& diagnostics, i64 steps)
    : use_(use),
      declared_(declared),
      sink_(sink),
      target_(target),
      limits_(limits),
      diagnostics_(&diagnostics),
      module_(use.module.get()),
      steps_left_(steps) {
  if (!sink_.records()) return;
  for_each<For>(sink_.state().program().body, [&](const For* loop) { known_loops_.insert(loop->id.value); });
}

Evaluator::~Evaluator() {
  for (const std::shared_ptr<Scope>& scope : captured_) scope->names.clear();
}

namespace {

// Loops of a schedule that depend on samples: every loop that its base program did not have, unless the trace has no
// sample.
std::unordered_set<u32> open_loops_of(const Schedule& schedule) {
  std::unordered_set<u32> open;
  if (schedule.trace().sample_count() == 0) return open;
  u32 first_made = schedule.base_loop_count();
  for_each<For>(schedule.program().body, [&](const For* loop) {
    if (loop->id.value >= first_made) open.insert(loop->id.value);
  });
  return open;
}

}  // namespace

namespace {

RuleOutcome apply_native(const RuleUse& use, const Schedule& base, BlockId block, const TargetFacts& target,
                         const Limits& limits, Diagnostics& diagnostics) {
  RuleOutcome outcome;
  const NativeRule& rule = *use.rule->native;
  // The child's result cannot be used, because schedules live in the memory of this process.
  std::string wrong = try_in_child("the rule", kNativeSeconds, [&] {
    std::vector<Reject> ignored;
    if (rule.unmet(base.state(), *base.state().find_block(block), target).empty())
      rule.apply(base, block, target, ignored);
    return std::string();
  });
  if (!wrong.empty()) {
    diagnostics.error(use.rule->span, wrong);
    return outcome;
  }
  outcome.unmet = rule.unmet(base.state(), *base.state().find_block(block), target);
  outcome.applied = outcome.unmet.empty();
  if (!outcome.applied) return outcome;
  std::vector<Reject> rejects;
  outcome.schedules = rule.apply(base, block, target, rejects);
  for (const Reject& why : rejects)
    outcome.rejects.push_back({std::string(use.rule->name), to_string(why), why.instruction, why.reason});
  if (static_cast<int>(outcome.schedules.size()) <= limits.forks_per_block) return outcome;
  diagnostics.error(use.rule->span, cat("the rule makes more than ", limits.forks_per_block, " sketches of one block"));
  return {};
}

}  // namespace

RuleOutcome apply_rule(const RuleUse& use, const Declared& declared, const Schedule& base, BlockId block,
                       const TargetFacts& target, const Limits& limits, Diagnostics& diagnostics,
                       const std::vector<Choice>* only) {
  if (use.rule->native) return apply_native(use, base, block, target, limits, diagnostics);
  RuleOutcome outcome;
  std::vector<Choice> choices;
  if (only) choices = *only;
  std::unordered_set<u32> open = open_loops_of(base);
  for (int forks = 0;; ++forks) {
    if (forks == limits.forks_per_block) {
      diagnostics.error(use.rule->span,
                        cat("the rule makes more than ", limits.forks_per_block, " sketches of one block"));
      return {};
    }
    Schedule schedule = base.fork();
    Evaluator evaluator(use, declared, Sink(schedule), target, limits, diagnostics, limits.steps - outcome.steps);
    evaluator.choices = choices;
    evaluator.assume_open(open);
    evaluator.assume_drawn(base.trace());
    Flow flow = evaluator.run(block);
    outcome.steps = limits.steps - evaluator.steps_left();
    outcome.applied |= evaluator.applied();
    outcome.unmet = evaluator.unmet();
    if (flow == Flow::Error) return {};
    auto note = [&](const Reject& why, bool is_caught) {
      outcome.rejects.push_back({std::string(use.rule->name), to_string(why), why.instruction, why.reason, is_caught});
    };
    for (const Reject& caught : evaluator.caught()) note(caught, true);
    if (flow == Flow::Rejected) note(evaluator.rejected, false);
    if (flow == Flow::Next || flow == Flow::Skip) {
      outcome.schedules.push_back(std::move(schedule));
      outcome.choices.push_back(evaluator.taken());
      outcome.conditions.push_back(std::move(evaluator.conditions));
    }
    outcome.dropped += flow == Flow::Drop && evaluator.applied();
    if (only) return outcome;
    choices = evaluator.choices;
    while (!choices.empty() && choices.back().taken + 1 == choices.back().count) choices.pop_back();
    if (choices.empty()) return outcome;
    ++choices.back().taken;
  }
}

namespace {

constexpr const char* kCrashes = "postprocessor `{a}` crashes: {b}";
constexpr const char* kThrows = "postprocessor `{a}` throws an exception";
constexpr const char* kTakesLong = "postprocessor `{a}` takes too long";

// Processor time for one candidate. Once one has taken too long, so that others are likely to, it is less: else the
// search would wait for each.
constexpr double kPostSeconds = 2, kPostSecondsThen = 0.1;

// Called for every candidate, so there is no child for it as there is for a rule.
Status run_native_post(const RuleUse& use, Schedule& schedule, const TargetFacts& target) {
  static std::atomic<bool> is_one_too_long = false;
  Status status = ok();
  CallEnd end = guard_call(is_one_too_long ? kPostSecondsThen : kPostSeconds,
                           [&] { status = use.rule->native_post->apply(schedule, target); });
  Str name(use.rule->name);
  if (end.crash) return reject(kCrashes, name, Str(end.crash));
  if (end.has_thrown) return reject(kThrows, name);
  if (end.is_too_long) return is_one_too_long = true, reject(kTakesLong, name);
  return status;
}

Status run_post(const RuleUse& use, const Declared& declared, Sink sink, const TargetFacts& target,
                Diagnostics& diagnostics) {
  static const Limits limits;
  Evaluator evaluator(use, declared, sink, target, limits, diagnostics, limits.steps);
  Flow flow = evaluator.run({});
  if (flow == Flow::Rejected) return evaluator.rejected;
  if (flow == Flow::Error) return reject("the postprocessor has an error in its text");
  if (flow == Flow::Drop) return reject("postprocessor `{a}` refuses the program", Str(use.rule->name));
  return ok();
}
}  // namespace

Status apply_post(const RuleUse& use, const Declared& declared, State& state, const TargetFacts& target,
                  Diagnostics& diagnostics) {
  if (use.rule->native_post) {
    Schedule schedule(state);
    TW_TRY_STATUS(run_native_post(use, schedule, target));
    state.set_program(schedule.program());
    return ok();
  }
  return run_post(use, declared, Sink(state), target, diagnostics);
}

Status apply_post(const RuleUse& use, const Declared& declared, Schedule& schedule, const TargetFacts& target,
                  Diagnostics& diagnostics) {
  if (use.rule->native_post) return run_native_post(use, schedule, target);
  return run_post(use, declared, Sink(schedule), target, diagnostics);
}

bool is_fault_of_post(const Reject& why) {
  const std::string_view reason = why.reason;
  return reason == kCrashes || reason == kThrows || reason == kTakesLong;
}

}  // namespace tw::rules
