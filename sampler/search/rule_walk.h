// Applies the rules of a set to a program, one place (a rule at a block) after the other: along all ways that the rules leave, or along some
// of them. What is being made is a list of partial sketches. Private to space.cc and other_sketches.cc.
#pragma once
#include "sampler/search/space.h"

namespace tw {

struct Partial {
  Schedule schedule;
  std::vector<std::string> rules;
  std::vector<std::string> makers;  // one per instruction
  std::vector<int> places;          // likewise
  std::vector<Fork> forks;
  bool is_doubtful = false;         // the draw at hand does not meet a condition: there may be none that meets all
  double weight = 1;                // how many sketches it stands for, since others were left out
};

// What rules are applied to and what they may know.
struct RuleSetting {
  const Program& program;
  const rules::Library& library;
  const rules::TargetFacts& target;
};

// Which ways a walk goes.
struct Ways {
  // Leaves those partial sketches that go on behind a place.
  std::function<void(int place, std::vector<Partial>& partials)> keep;
  // The one fork that is wanted of a place; null = all of them. All are looked at as well where it is not there.
  std::function<const Fork*(int place)> only;
  // Once it says true, no further place is visited.
  std::function<bool()> stop;
};

class RuleWalk {
 public:
  // Rejects and visits are noted in `notes`.
  RuleWalk(const RuleSetting& setting, const std::vector<rules::RuleUse>& uses, Space& notes) : setting_(setting), uses_(uses), notes_(notes) {}

  // The sketches of all rules of the set. An error in the text of a rule ends the walk.
  std::vector<Partial> run(const Ways& ways, u64 seed);
  // The sketches that a schedule by hand makes of the untouched program.
  std::vector<Partial> run_schedule(const rules::RuleUse& use, u64 seed, Diagnostics& diagnostics);

  // After an error: which rule, and what is to be said.
  const rules::RuleUse* failed() const { return failed_; }
  const std::string& error() const { return error_; }
  bool has_rules() const;

 private:
  std::vector<Partial> visit(const rules::RuleUse& use, BlockId block, int place, std::vector<Partial> partials, const Ways& ways,
                             Diagnostics& diagnostics, i64& steps);
  std::vector<Partial> go_on(const rules::RuleUse& use, BlockId block, int place, const Partial& from, const Ways& ways,
                             Diagnostics& diagnostics, i64& steps);
  bool is_possible(const rules::RuleUse& use, const Schedule& schedule, const std::vector<rules::RecordedCondition>& conditions, bool is_doubtful);

  RuleSetting setting_;
  const std::vector<rules::RuleUse>& uses_;
  Space& notes_;
  const rules::RuleUse* failed_ = nullptr;
  std::string error_;
};

// A partial sketch is done: without dead code.
Sketch finished(Partial partial);
Sketch make_sketch(Trace trace, std::vector<std::string> rules);
Reject impossible_at(Str condition);

}  // namespace tw
