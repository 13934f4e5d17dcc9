// Applies the rules of a set to a program, place after place; a place is one rule at one block. Forks of rules multiply
// the list of partial sketches, of which a caller may keep some (Ways). For space.cc and other_sketches.cc only.
#pragma once
#include "sampler/space/space.h"

namespace tw {

struct Partial {
  Schedule schedule;
  std::vector<std::string> rules;
  std::vector<std::string> makers;  // one per instruction
  std::vector<int> places;          // likewise
  std::vector<Fork> forks;
  bool is_doubtful = false;  // the draw at hand does not meet a condition: there may be none that meets all
  double weight = 1;         // how many sketches it stands for, since others were left out
};

// The program, the rules at hand, and the target.
struct RuleSetting {
  const Program& program;
  const rules::Library& library;
  const rules::TargetFacts& target;
};

// Which forks a walk follows.
struct Ways {
  // Called after each place: removes the partial sketches that are not to be followed.
  std::function<void(int place, std::vector<Partial>& partials)> keep;
  // The one fork that is wanted at a place, or null for all. If the place does not have it, all are followed.
  std::function<const Fork*(int place)> only;
  // Asked before each place; true ends the walk.
  std::function<bool()> stop;
};

class RuleWalk {
 public:
  // Rejects and visits are added to `notes`.
  RuleWalk(const RuleSetting& setting, const std::vector<rules::RuleUse>& uses, Space& notes)
      : setting_(setting), uses_(uses), notes_(notes) {}

  // The sketches of all rules of the set. An error in the text of a rule ends the walk.
  std::vector<Partial> run(const Ways& ways, u64 seed);
  // The sketches that a schedule by hand makes of the untouched program.
  std::vector<Partial> run_schedule(const rules::RuleUse& use, u64 seed, Diagnostics& diagnostics);

  // After an error: the rule, and the message.
  const rules::RuleUse* failed() const { return failed_; }
  const std::string& error() const { return error_; }
  bool has_rules() const;

 private:
  std::vector<Partial> visit(const rules::RuleUse& use, BlockId block, int place, std::vector<Partial> partials,
                             const Ways& ways, Diagnostics& diagnostics, i64& steps);
  std::vector<Partial> go_on(const rules::RuleUse& use, BlockId block, int place, const Partial& from, const Ways& ways,
                             Diagnostics& diagnostics, i64& steps);
  bool is_possible(const rules::RuleUse& use, const Schedule& schedule,
                   const std::vector<rules::RecordedCondition>& conditions, bool is_doubtful);

  RuleSetting setting_;
  const std::vector<rules::RuleUse>& uses_;
  Space& notes_;
  const rules::RuleUse* failed_ = nullptr;
  std::string error_;
};

// The sketch of a partial one after the last place, without dead code. `base`: the program that the rules were given.
Sketch finished(Partial partial, const Program& base);
Sketch make_sketch(Trace trace, std::vector<std::string> rules, Extents extents = {});
Reject impossible_at(Str condition);

}  // namespace tw
