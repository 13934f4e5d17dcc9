// Explains a space: which rules applied where, and which steps were rejected, while it was built and in random draws.
// Used by `tracewright explain`. It measures nothing.
#pragma once
#include <string>
#include <vector>

#include "sampler/space/candidate.h"

namespace tw {

// Rejects of one kind.
struct RejectRow {
  std::string rule;  // "" = not known; "lowering" = a pass
  std::string instruction;
  std::string reason;   // with {holes} for numbers and names
  std::string example;  // one of them, as text
  std::string when;     // "building" (a fork is no sketch), "try" (went on), "drawing"
  i64 count = 0;
};

// One rule and one block, over all partial sketches.
struct RuleRow {
  std::string rule, block;
  int applied = 0, kept = 0, dropped = 0;
  int added = 0;      // kept forks with an instruction of the rule
  std::string unmet;  // the part of `when` that was false, if it never applied
};

struct SpaceExplanation {
  std::vector<RuleRow> rules;      // in the order of the set
  std::vector<RejectRow> rejects;  // most frequent first
  i64 draws = 0, rejected = 0;
  std::size_t followed = 0;  // sketches to which all of this belongs
  double sketches = 0;       // that there are; more than followed: about so many
};

// `draws` random candidates in all, in turn from every sketch.
SpaceExplanation explain_space(const CandidateSpace& space, const Target& target, i64 draws, u64 seed);

}  // namespace tw
