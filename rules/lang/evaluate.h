// Runs rules. A rule's body runs on one schedule; at `either` it forks. Forks are found by running the body again with
// the next list of choices, so the evaluator needs no continuations and every sketch is an ordinary recorded schedule.
#pragma once
#include "dsl/schedule/schedule.h"
#include "rules/lang/functions.h"
#include "rules/lang/module.h"

namespace tw::rules {

// Limits on hostile or runaway modules; exceeding one is a diagnostic.
struct Limits {
  i64 steps = 1000000;  // per run of a rule on one block, all forks; an element of a list costs 4, an instruction 100
  i64 steps_per_task = 20000000;  // per rule and task
  int list_length = 10000;
  int list_depth = 64;
  i64 list_parts = 100000;  // values of a list, those of lists inside it counted
  i64 open_parts = 1000;    // samples, numbers and operators in an open value
  int call_depth = 64;      // functions inside functions
  int nesting = 600;        // expressions inside expressions, through calls
  int forks_per_block = 256;
  int instructions = 2000;  // per trace
};

// A rule with its parameters as a rule set gives them.
struct RuleUse {
  const Rule* rule = nullptr;
  std::shared_ptr<const Module> module;
  std::vector<ast::Argument> arguments;  // overrides, evaluated in the module of the set
  std::shared_ptr<const Module> set_module;
};

// A function, step or mark, and the module that has it.
template <class T>
struct Definition {
  std::shared_ptr<const Module> home;
  const T* what;
};

// What modules declare beside rules and sets.
struct Declared {
  std::vector<Definition<UserFunction>> functions;
  std::vector<Definition<Step>> steps;
  std::vector<Definition<Mark>> marks;
};

// What a module sees under a name: its own definition, else one that another module exports. Null = none.
template <class T>
const Definition<T>* find_visible(const std::vector<Definition<T>>& all, std::string_view name, const Module* module) {
  const Definition<T>* exported = nullptr;
  for (const Definition<T>& each : all) {
    if (each.what->name != name) continue;
    if (each.home.get() == module) return &each;
    if (each.what->is_exported) exported = &each;
  }
  return exported;
}

// One of that name that its module keeps to itself. Null = none.
template <class T>
const Definition<T>* find_unexported(const std::vector<Definition<T>>& all, std::string_view name) {
  for (const Definition<T>& each : all) {
    if (each.what->name == name && !each.what->is_exported) return &each;
  }
  return nullptr;
}

struct ForkReject {
  std::string rule;
  std::string reason;        // the reject as one line
  std::string instruction;   // its name
  const char* pattern = "";  // the reason without its numbers and names
  bool is_caught = false;    // inside a `try`: the fork went on
};

// A `require` or `prefer` that a rule recorded.
struct RecordedCondition {
  std::size_t step = 0;            // in the trace
  Span span;                       // in the text of the rule, or of a step of it
  const Source* source = nullptr;  // of that text
  bool holds = false;              // for the draw at hand
};

// Which alternative a run of a rule took at one `either`, and how many there were.
struct Choice {
  int taken = 0, count = 0;
  bool operator==(const Choice&) const = default;
};

struct RuleOutcome {
  std::vector<Schedule> schedules;                         // one per fork that was kept
  std::vector<std::vector<Choice>> choices;                // that led to each of them; rules of plugins tell of none
  std::vector<std::vector<RecordedCondition>> conditions;  // of each of them, those that this rule added
  std::vector<ForkReject> rejects;                         // instructions that were rejected
  bool applied = false;                                    // `when` held
  std::string unmet;                                       // else the part of `when` that is false, as written
  i64 steps = 0;                                           // taken
  int dropped = 0;  // forks that ended with `drop`, a `require` that is false, or no open alternative
};

// Runs one rule on one block (or the program) of `base`. Errors of the rule's text go to `diagnostics`; then the
// outcome is empty. With `only`, a rule in text follows these choices alone and gives that one fork.
RuleOutcome apply_rule(const RuleUse& use, const Declared& declared, const Schedule& base, BlockId block,
                       const TargetFacts& target, const Limits& limits, Diagnostics& diagnostics,
                       const std::vector<Choice>* only = nullptr);

// How long a rule of a plugin may take for one block, and a postprocessor of one for a candidate when it is tried.
inline constexpr int kNativeSeconds = 10;

// Runs a postprocessor on a concrete program, without recording. A Reject rejects the candidate. One of a plugin that
// crashes, throws or takes too long does that, too.
Status apply_post(const RuleUse& use, const Declared& declared, State& state, const TargetFacts& target,
                  Diagnostics& diagnostics);
// The same, recorded.
Status apply_post(const RuleUse& use, const Declared& declared, Schedule& schedule, const TargetFacts& target,
                  Diagnostics& diagnostics);
// Was it rejected because a postprocessor of a plugin crashed, threw an exception or took too long?
bool is_fault_of_post(const Reject& why);

}  // namespace tw::rules
