// The space of a task: its sketches. A sketch is a trace whose decisions are open, compiled once into what drawing
// needs.
#pragma once
#include <boost/iterator/indirect_iterator.hpp>
#include <functional>
#include <memory>
#include <unordered_map>

#include "backends/target.h"
#include "rules/lang/library.h"
#include "sampler/draw/joint_prior.h"
#include "sampler/space/known.h"

namespace tw {

// A place where a rule gave several results, and which of them a sketch has.
struct Fork {
  int place = 0;  // which rule at which block: a number that all sketches of a space share
  int taken = 0, count = 1;
  std::vector<rules::Choice> choices;  // that the rule's body took at its `either`s
};

struct Sketch {
  Trace trace;  // without dead code; decisions are those of the draw at which it was built
  std::shared_ptr<const JointPrior> prior;
  std::vector<std::string> rules;   // that changed the program, in order
  std::vector<std::string> makers;  // the rule that made each instruction of the trace
  std::vector<int> places;          // where it made it, see Fork::place; none for schedules by hand
  std::vector<Fork> forks;          // in order; none for schedules by hand
  std::size_t decided = 0;  // instructions up to the last sample, or to the last condition that may draw samples again
  int condition_step =
      -1;  // what to name if nothing can be drawn: the first `require` or `prefer` with which no decisions
  std::string condition;  // are left, as far as they can be counted, else the last one; as text
};
// Why nothing can be drawn from it. Valid as long as the sketch is.
Reject no_draw(const Sketch& sketch);

// Sketches by number. Adding one does not move the others, so other threads may read them meanwhile.
class SketchList {
  using Pointers = std::vector<std::shared_ptr<const Sketch>>;

 public:
  static constexpr std::size_t kMost = 4096;
  using const_iterator = boost::indirect_iterator<Pointers::const_iterator>;

  SketchList() { list_.reserve(kMost); }
  SketchList(SketchList&&) = default;
  SketchList& operator=(SketchList&&) = default;
  std::size_t size() const { return list_.size(); }
  bool empty() const { return list_.empty(); }
  const Sketch& operator[](std::size_t number) const { return *list_[number]; }
  const_iterator begin() const { return list_.begin(); }
  const_iterator end() const { return list_.end(); }

  // The number of the sketch with this trace, whatever its decisions are; -1 = none.
  int find(const Trace& trace) const;
  // Adds one, and gives its number; -1 if there is no more room.
  int add(Sketch sketch);

 private:
  Pointers list_;
  std::unordered_map<Hash128, int, HashOfHash> numbers_;  // by trace, the first of equal ones
};

// What one rule did with one block of one partial sketch.
struct RuleVisit {
  std::string rule, block;  // no block: a rule that visits the program
  bool applied = false;     // `when` held
  std::string unmet;        // else the part of `when` that is false
  int kept = 0, dropped = 0;
  int added = 0;  // kept forks with an instruction of this rule
};

struct Space {
  SketchList sketches;
  double count = 0;                        // of all sketches; more than there are in the list: an estimate
  std::vector<rules::RuleUse> uses;        // the rules that were applied
  std::vector<rules::ForkReject> rejects;  // instructions that were rejected while the space was built
  std::vector<RuleVisit> visits;

  bool is_whole = true;  // the list has all of them
};

// Rules of the user's that fit somewhere and whose every try was rejected: most likely they are wrong. One line each,
// with the first reason.
std::vector<std::string> rules_without_effect(const Space& space);

// A space of at most this many sketches is built whole.
inline constexpr int kAllSketches = 64;
// Of a larger space this many are built first: the one with all first alternatives, and others at random.
inline constexpr int kFirstSketches = 16;

// Applies the rules of a set, in order, to every block that the program had at first (consumers before producers) or to
// the program. Sketches with equal traces are kept once; without any rule that applies there is one sketch, the program
// as it is. Forks of different blocks multiply: of a space of more than kAllSketches some sketches are built here and
// others on demand (other_sketches.h). Schedules by hand of the set make sketches of their own, of programs of their
// workload; without rules the set has only these. `seed` is for the draws at which sketches are built; the sketches do
// not depend on it. A fork whose conditions no decisions satisfy is no sketch; `rejects` says so. Errors in the text of
// rules go to their module's diagnostics, rendered into `errors`; the space is then built without that rule. Once
// `stop` says true no further rule visits a block, and the sketches are those made until then.
Space build_space(const Program& program, const std::vector<rules::RuleUse>& uses, const rules::Library& library,
                  const rules::TargetFacts& target, std::string& errors, u64 seed = 1,
                  const std::function<bool()>& stop = {});

// Adds a schedule by hand with open samples to the sketches of a space.
void add_template(Space& space, const Trace& trace);

// What rules may know about a target.
rules::TargetFacts facts_of(const Target& target);

// log10 of the number of decisions of a sketch, with the extents of the draw at which it was built; -1 if some sample
// is not understood.
double log10_points(const Sketch& sketch);

}  // namespace tw
