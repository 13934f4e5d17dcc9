// Checks one rule (or a set) against the operator library: which blocks it fits, what it adds to the space, and whether
// what it draws computes the same as the program. Used by `tracewright check`. It measures nothing.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/target.h"
#include "rules/lang/library.h"
#include "sampler/search/reduce.h"
#include "sampler/space/space.h"

namespace tw {

// A program to try rules on.
struct TrialProgram {
  std::string use;  // "dense(M = 16, N = 64, K = 13)"
  OwnedProgram program;
};
// Every operator of the library, small, with data-parallel extents that have enough factors for four tile levels and
// one prime extent; `dense` once more with prime data-parallel extents.
std::vector<TrialProgram> trial_programs();

struct Match {
  std::string use, block;
  int sketches = 0;  // that the rule alone makes of this block
};

struct Counterexample {
  std::string use, difference;
  FailingCase failing;  // the trace with its decisions
};

struct RuleCheck {
  std::vector<Match> matches;
  std::map<std::string, std::vector<std::string>> misses;  // part of `when` that is false -> "dense Y", ...
  std::map<std::string, int> rejects;                      // "split: ..." -> how often, while the space was built
  int sketches = 0, programs = 0;                          // of all programs where something matched
  bool adds_nothing = false;  // it matched, but no sketch has an instruction of it: nothing was drawn
  int draws = 0, rejected = 0, different = 0;
  // Factors of the drawn tiles whose loops have an extent that can be divided, by how many factors the tile has and
  // which one it is.
  struct Level {
    int drawn = 0, above_one = 0;
  };
  std::map<std::pair<int, int>, Level> tile_levels;
  Level prior_tile_levels;               // all of the first tries, which are as the prior draws them
  static constexpr int kMostTries = 16;  // of which the best is taken, for seven draws of eight
  Level all_tile_levels() const;
  Level rarest_tile_level() const;  // that is above 1 in the smallest share of the draws
  std::map<std::string, int> draw_rejects;
  int given_up = 0;                              // of the rejected ones: the interpreter cannot compare them
  static constexpr int kMostGivenUp = 30;        // each takes long; then the check ends
  std::optional<Counterexample> counterexample;  // the first one
  std::string errors;                            // of the rule's text, found while it ran
};

// Most draws are the best of several in how many tile levels are above 1, so that each level has something to do.
// Builds the space that `uses` alone give for each program, draws until `draws` draws were compared with their program,
// scheduled and lowered, in the interpreter (at most three times as many).
RuleCheck check_rule(const std::vector<rules::RuleUse>& uses, const rules::Library& library,
                     const std::vector<TrialProgram>& programs, const Target& target, int draws, u64 seed);

// How a trace may fail, the cheapest question first: can it be replayed, then lowered, then compiled for the target;
// does the interpreter find that it computes what its program computes (a question that does not ask whether it can be
// compiled).
enum class Question { Replay, Lower, Compile, Compare };

// "" if the trace passes this question and those that it rests on; else the reject or the difference. Strict. "" also
// where the interpreter cannot compare by no fault of the trace: the program itself fails, or is too large; then
// `unjudged` says so.
std::string failure_of(const FailingCase& failing, const Target& target, std::string* unjudged = nullptr,
                       Question question = Question::Compare);

}  // namespace tw
