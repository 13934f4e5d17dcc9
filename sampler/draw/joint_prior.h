// JointPrior: draws the decisions of a sketch together, without a replay. Categorical samples that are tied by
// `require` or `prefer` form groups. A group's samples get their values one after the other, each in proportion to the
// weight of all valid assignments that go on from there, so draws have exactly their prior and none is thrown away.
// That weight depends on the values that a later condition asks about only (variable elimination), so it is tabulated
// once for each combination of these. Tiles of loops whose extents follow from other samples (Extents) come next; of
// these there are too many to tabulate: those that a `require` ties are drawn until it holds. All other samples are
// left open and are drawn at replay.
#pragma once
#include <unordered_map>
#include <unordered_set>

#include "dsl/schedule/trace.h"
#include "sampler/draw/extents.h"

namespace tw {

class JointPrior {
 public:
  // A group whose table would take more steps than this (some 0.1 us each) is drawn by rejection, from the same prior:
  // a sample by its weights, the whole by its preferences. Conditions that hardly anything fulfils may then have no
  // draw.
  static constexpr i64 kMaxSteps = 4'000'000;

  // Without `extents`, tiles that can be drawn are perfect ones of loops that no draw made, with the extents that
  // recorded decisions multiply to.
  explicit JointPrior(const Trace& trace, Extents extents = {}, i64 max_steps = kMaxSteps);

  // Sets the decisions of all categorical samples and of all tiles that can be drawn (sample order, as in replay).
  // False if some group has no valid assignment, or none was found.
  bool draw(std::vector<Decision>& decisions, Rng& rng) const;
  // Makes tiles fit their loops, as replay does in adapting mode. False if a condition that can be tested does not
  // hold.
  bool fit(std::vector<Decision>& decisions) const;
  // Is it certain that draw() gives false? Of groups without a table nothing is known.
  bool is_impossible() const;
  // Redraws the group of one sample so that that sample changes, the others staying as near as they can: among the
  // valid assignments with another value of `sample`, one of those that differ in the fewest places. False if there is
  // none, or in a group without a table none with three more changes.
  bool redraw(std::size_t sample, std::vector<Decision>& decisions, Rng& rng) const;
  // The candidates of a categorical sample with literal candidates; empty for other samples.
  const std::vector<i64>& candidates(std::size_t sample) const { return samples_[sample].candidates; }
  bool in_group(std::size_t sample) const { return samples_[sample].group >= 0; }
  // Is the sample a tile that draw() sets?
  bool draws_tile(std::size_t sample) const { return tiles_[sample].count > 0; }
  // Is it a `require` of the trace that draw() satisfies? Any other is known at replay only.
  bool satisfies(const Instruction& instruction) const { return satisfied_.contains(instruction.arguments.data()); }
  // log10 of the number of valid assignments of all groups together; of tiles nothing is counted.
  double log10_groups() const;
  // Log of the weight of the categorical decisions, which is their prior but for a constant factor: the weights of
  // their values and the preferences. -infinity where a preference is 0. They are all decided.
  double log_weight(const std::vector<Decision>& decisions) const;
  // Does the assignment satisfy every require and prefer that can be tested? One over a decision that is open counts as
  // satisfied.
  bool satisfied(const std::vector<Decision>& decisions) const;

 private:
  using Index = std::uint32_t;  // of a candidate
  struct Sample {
    std::vector<i64> candidates, weights;
    int group = -1;
    std::size_t place = 0;  // in the group
  };
  // Of the valid ways to go on from a prefix of a group's assignment.
  struct Rest {
    double weight = 0, count = 0;
  };
  // Conditions and preferences whose last sample is at a place, and the places before it on which what comes from there
  // on depends.
  struct Place {
    std::vector<const Arg*> conditions, preferences;
    std::vector<std::size_t> frontier;
    std::unordered_map<u64, Rest> rests;  // by the values at these
  };
  struct Group {
    std::vector<std::size_t> samples;
    std::vector<const Arg*> conditions;   // parts of a conjunction apart
    std::vector<const Arg*> preferences;  // weights, at least 1 in a valid assignment
    std::vector<Place> places;
    Rest all;
    bool has_table = false;
    double largest_preference = 1;  // without a table: no assignment has a larger product of preferences
  };
  // A tile that can be drawn; count 0 = the sample is none.
  struct Tile {
    const Arg* extent = nullptr;  // of its loop, over values of samples before it
    i64 max_innermost = 0;
    int count = 0;
    bool is_perfect = false;
  };
  // Tiles that conditions and extents tie.
  struct TileGroup {
    std::vector<std::size_t> samples;
    std::vector<const Arg*> conditions;
  };
  // Which factor of which tile a value is; sample -1 = of none.
  struct Factor {
    int sample = -1, part = 0;
  };
  enum class Reach { Categoricals, Tiles, Replay };  // what one must know to evaluate an expression
  Reach reach_of(const Arg& arg) const;
  void find_samples();
  Tile tile_of(const Instruction& instruction, std::size_t made_by_draws) const;
  void tie_tiles(const std::vector<const Arg*>& conditions);
  bool draw_tiles(const TileGroup& group, std::vector<Decision>& decisions, Rng& rng) const;
  bool tiles_hold(const TileGroup& group, const std::vector<Decision>& decisions) const;
  bool is_decided(const Arg& arg, const std::vector<Decision>& decisions) const;
  i64 evaluate(const Arg& arg, const std::vector<Decision>& decisions) const;
  Index draw_index(const Sample& sample, Rng& rng) const;
  class Table;
  class Repair;
  // `indices`: one per sample of the group.
  bool holds(const Group& group, const Index* indices) const;
  i64 evaluate(const Arg& arg, const Index* indices) const;
  // Of the value at a place with what is asked there: 0 = not possible.
  double weight_at(const Group& group, std::size_t place, const Index* indices) const;
  void draw_by_table(const Group& group, std::vector<Index>& indices, Rng& rng) const;
  bool draw_by_rejection(const Group& group, std::vector<Index>& indices, Rng& rng) const;
  // What can follow where the places before `place` have their values.
  Rest rest_of(const Group& group, std::size_t place, const Index* indices) const;
  u64 key_of(const Group& group, const Place& place, const Index* indices) const;
  bool draw_group(const Group& group, std::vector<Decision>& decisions, Rng& rng) const;

  Trace trace_;      // keeps the arguments alive
  Extents extents_;  // and these
  std::vector<Sample> samples_;
  std::vector<int> sample_of_value_;  // -1 = not the value of a categorical sample
  std::vector<Group> groups_;
  std::vector<Tile> tiles_;  // one for each sample
  std::vector<Factor> factor_of_value_;
  std::vector<TileGroup> tile_groups_;
  std::unordered_set<const Arg*> satisfied_;  // arguments of the instructions that draw() satisfies
};

}  // namespace tw
