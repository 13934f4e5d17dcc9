// JointPrior: draws all constrained decisions of a sketch together. Categorical samples that are tied by `require` or `prefer` form groups. A group's
// samples get their values one after the other, each in proportion to the weight of all valid assignments that go on from there, so draws have
// exactly their prior and none is thrown away. That weight depends on the values that a later condition asks about only (variable elimination), so it is
// tabulated once for each combination of these. Perfect tiles of loops whose extent no draw decides are tied by `require` as well; there are too many
// to tabulate, so these are drawn until their conditions hold, which costs no replay. All other samples are left open and are drawn where their loop's
// extent is known, at replay.
#pragma once
#include <unordered_map>

#include "dsl/schedule/trace.h"

namespace tw {

class JointPrior {
 public:
  // A group whose table would take more steps than this (some 0.1 us each) is drawn by rejection, from the same prior: a sample by its
  // weights, the whole by its preferences. Conditions that hardly anything fulfils may then have no draw.
  static constexpr i64 kMaxSteps = 4'000'000;

  explicit JointPrior(const Trace& trace, i64 max_steps = kMaxSteps);

  // Sets the decisions of all groups (sample order, as in replay). False if some group has no valid assignment. Tiles for which none was
  // found stay open.
  bool draw(std::vector<Decision>& decisions, Rng& rng) const;
  // Is it certain that draw() gives false? Of groups without a table nothing is known.
  bool is_impossible() const;
  // Redraws the group of one sample so that that sample changes, the others staying as near as they can: among the valid
  // assignments with another value of `sample`, one of those that differ in the fewest places. False if there is none, or in a group
  // without a table none with three more changes.
  bool redraw(std::size_t sample, std::vector<Decision>& decisions, Rng& rng) const;
  // The candidates of a categorical sample with literal candidates; empty for other samples.
  const std::vector<i64>& candidates(std::size_t sample) const { return samples_[sample].candidates; }
  bool in_group(std::size_t sample) const { return samples_[sample].group >= 0; }
  // Is the sample a tile that is drawn together with others?
  bool is_tied_tile(std::size_t sample) const { return tiles_[sample].is_tied; }
  // Is it a `require` over groups, which draw() satisfies? One over anything else is known at replay only.
  bool satisfies(const Instruction& instruction) const;
  // log10 of the number of valid assignments of all groups together; of tiles nothing is counted.
  double log10_groups() const;
  // Does the assignment satisfy every require and prefer over categorical samples, and every require over tied tiles?
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
  // Conditions and preferences whose last sample is at a place, and the places before it on which what comes from there on depends.
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
  // A perfect tile of a loop whose extent is the same in every draw.
  struct Tile {
    i64 extent = 0, max_innermost = 0;  // 0 = the sample is no such tile
    int count = 0;
    bool is_tied = false;
  };
  struct TileGroup {
    std::vector<std::size_t> samples;
    std::vector<const Arg*> conditions;
  };
  // Which factor of which sample a value is; sample -1 = of none.
  struct Factor {
    int sample = -1, part = 0;
  };
  void find_samples();
  void tie_tiles(const std::vector<const Arg*>& conditions);
  void draw_tiles(const TileGroup& group, std::vector<Decision>& decisions, Rng& rng) const;
  bool tiles_hold(const TileGroup& group, const std::vector<Decision>& decisions) const;
  class Table;
  class Repair;
  bool is_over_categoricals(const Arg& arg) const;
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

  Trace trace_;  // keeps the arguments alive
  std::vector<Sample> samples_;
  std::vector<int> sample_of_value_;  // -1 = not the value of a categorical sample
  std::vector<Group> groups_;
  std::vector<Tile> tiles_;              // one for each sample
  std::vector<Factor> factor_of_value_;
  std::vector<TileGroup> tile_groups_;
};

}  // namespace tw
