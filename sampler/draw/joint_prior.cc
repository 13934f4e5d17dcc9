#include "sampler/draw/joint_prior.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "dsl/base/check.h"
#include "dsl/ir/build.h"
#include "sampler/draw/tiles.h"

namespace tw {
namespace {

void values_of(const Arg& arg, std::vector<u32>& out) {
  if (arg.tag == Arg::Tag::Value) out.push_back(static_cast<u32>(arg.integer));
  for (const Arg& item : arg.items) values_of(item, out);
}

bool is_literal_list(const Arg& arg) {
  return arg.tag == Arg::Tag::List &&
         std::all_of(arg.items.begin(), arg.items.end(), [](const Arg& item) { return item.tag == Arg::Tag::Int; });
}

// Conditions that all hold where the whole one does.
void add_parts(const Arg& arg, std::vector<const Arg*>& out) {
  if (arg.tag != Arg::Tag::Binary || arg.op != BinaryOp::And) return out.push_back(&arg);
  for (const Arg& part : arg.items) add_parts(part, out);
}

int root_of(std::vector<int>& parent, int i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

constexpr int kMaxTileDraws = 20000;  // some milliseconds

template <class ValueOf>
i64 evaluate_with(const Arg& arg, const ValueOf& value_of) {
  if (arg.tag == Arg::Tag::Int) return arg.integer;
  if (arg.tag == Arg::Tag::Value) return value_of(arg.integer);
  TW_CHECK(arg.tag == Arg::Tag::Binary, "condition with an unexpected argument");
  return fold(arg.op, evaluate_with(arg.items[0], value_of), evaluate_with(arg.items[1], value_of)).value_or(0);
}

}  // namespace

void JointPrior::find_samples() {
  std::size_t made_by_draws = trace_.value_count();  // values from here on may depend on a draw
  for (const Instruction& instruction : trace_.instructions()) {
    if (!instruction.kind->samples) continue;
    std::string_view name = instruction.kind->name;
    made_by_draws = std::min<std::size_t>(made_by_draws, instruction.first_result);
    Sample sample;
    Tile tile;
    if (name == "sample_categorical" && is_literal_list(instruction.arguments[0])) {
      for (const Arg& item : instruction.arguments[0].items) sample.candidates.push_back(item.integer);
      for (const Arg& item : instruction.arguments[1].items) sample.weights.push_back(item.integer);
      if (sample.weights.empty()) sample.weights.assign(sample.candidates.size(), 1);
      sample_of_value_[instruction.first_result] = static_cast<int>(samples_.size());
    }
    const Arg& of = instruction.arguments[0];
    bool is_fixed = of.tag == Arg::Tag::Value && static_cast<std::size_t>(of.integer) < made_by_draws;
    if (name == "sample_perfect_tile" && is_fixed && !instruction.decision.open()) {
      tile = {1, instruction.arguments[2].integer, instruction.decision.count, false};
      for (int i = 0; i < tile.count; ++i) {
        tile.extent *= instruction.decision.values[i];
        factor_of_value_[instruction.first_result + static_cast<u32>(i)] = {static_cast<int>(samples_.size()), i};
      }
    }
    samples_.push_back(std::move(sample));
    tiles_.push_back(tile);
  }
}

// All valid assignments of a group, the index of its last sample fastest. A condition is asked as soon as the samples in it have
// their values, so that what it excludes is not visited.
class JointPrior::Enumeration {
 public:
  Enumeration(const JointPrior& prior, Group& group) : prior_(prior), group_(group), asked_(group.samples.size()), indices_(group.samples.size()) {}

  void run() {
    double size = 1;
    for (std::size_t sample : group_.samples) size *= static_cast<double>(prior_.samples_[sample].candidates.size());
    if (size > static_cast<double>(kMaxAssignments)) return;
    group_.enumerated = true;
    for (const Arg* condition : group_.conditions) asked_[last_place(*condition)].push_back({condition, false});
    for (const Arg* preference : group_.preferences) asked_[last_place(*preference)].push_back({preference, true});
    assign(0);
  }

 private:
  struct Question {
    const Arg* arg;
    bool is_preference;
  };

  std::size_t last_place(const Arg& arg) const {
    std::vector<u32> values;
    values_of(arg, values);
    std::size_t last = 0;
    for (u32 value : values) last = std::max(last, prior_.samples_[prior_.sample_of_value_[value]].place);
    return last;
  }

  bool is_possible(std::size_t place) const {
    return std::all_of(asked_[place].begin(), asked_[place].end(), [&](const Question& question) {
      i64 value = prior_.evaluate(*question.arg, indices_.data());
      return question.is_preference ? value >= 1 : value != 0;
    });
  }

  void assign(std::size_t place) {
    if (place == indices_.size()) {
      group_.assignments.insert(group_.assignments.end(), indices_.begin(), indices_.end());
      group_.cumulative.push_back(total_ += prior_.weight_of(group_, indices_.data()));
      return;
    }
    std::size_t count = prior_.samples_[group_.samples[place]].candidates.size();
    for (indices_[place] = 0; indices_[place] < count; ++indices_[place]) {
      if (is_possible(place)) assign(place + 1);
    }
  }

  const JointPrior& prior_;
  Group& group_;
  std::vector<std::vector<Question>> asked_;  // by the place of their last sample
  std::vector<Index> indices_;
  double total_ = 0;
};

JointPrior::JointPrior(const Trace& trace) : trace_(trace), sample_of_value_(trace.value_count(), -1), factor_of_value_(trace.value_count()) {
  struct Factor {
    const Arg* arg;
    bool is_preference;
  };
  find_samples();
  std::vector<Factor> factors;
  for (const Instruction& instruction : trace_.instructions()) {
    std::string_view name = instruction.kind->name;
    if (name == "require" || name == "prefer") factors.push_back({&instruction.arguments[0], name == "prefer"});
  }
  // Union the samples of each condition and weight; one over anything else is checked at replay only.
  std::vector<int> parent(samples_.size());
  std::iota(parent.begin(), parent.end(), 0);
  std::vector<std::pair<Factor, int>> usable;
  std::vector<const Arg*> of_tiles;
  for (const Factor& factor : factors) {
    std::vector<u32> values;
    values_of(*factor.arg, values);
    auto is_of_tile = [&](u32 value) { return factor_of_value_[value].sample >= 0; };
    bool is_of_tiles = !values.empty() && !factor.is_preference && std::all_of(values.begin(), values.end(), is_of_tile);
    if (is_of_tiles) of_tiles.push_back(factor.arg);
    if (!is_over_categoricals(*factor.arg)) continue;
    int first = sample_of_value_[values[0]];
    for (u32 value : values) parent[root_of(parent, sample_of_value_[value])] = root_of(parent, first);
    usable.emplace_back(factor, first);
  }
  tie_tiles(of_tiles);
  std::vector<int> group_of_root(samples_.size(), -1);
  for (auto [factor, member] : usable) {
    int root = root_of(parent, member);
    if (group_of_root[root] < 0) {
      group_of_root[root] = static_cast<int>(groups_.size());
      groups_.emplace_back();
    }
    Group& group = groups_[group_of_root[root]];
    if (factor.is_preference) group.preferences.push_back(factor.arg);
    else add_parts(*factor.arg, group.conditions);
  }
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    samples_[i].group = group_of_root.empty() ? -1 : group_of_root[root_of(parent, static_cast<int>(i))];
    if (samples_[i].group < 0) continue;
    std::vector<std::size_t>& members = groups_[samples_[i].group].samples;
    samples_[i].place = members.size();
    members.push_back(i);
  }
  for (Group& group : groups_) Enumeration(*this, group).run();
}

// Tiles that share a condition are drawn together: groups grow by what a condition mentions.
void JointPrior::tie_tiles(const std::vector<const Arg*>& conditions) {
  for (const Arg* condition : conditions) {
    TileGroup joined{{}, {condition}};
    std::vector<u32> values;
    values_of(*condition, values);
    for (u32 value : values) joined.samples.push_back(static_cast<std::size_t>(factor_of_value_[value].sample));
    auto shares = [&](const TileGroup& group) {
      return std::any_of(group.samples.begin(), group.samples.end(), [&](std::size_t sample) {
        return std::find(joined.samples.begin(), joined.samples.end(), sample) != joined.samples.end();
      });
    };
    for (const TileGroup& group : tile_groups_) {
      if (!shares(group)) continue;
      joined.samples.insert(joined.samples.end(), group.samples.begin(), group.samples.end());
      joined.conditions.insert(joined.conditions.end(), group.conditions.begin(), group.conditions.end());
    }
    std::erase_if(tile_groups_, shares);
    std::sort(joined.samples.begin(), joined.samples.end());
    joined.samples.erase(std::unique(joined.samples.begin(), joined.samples.end()), joined.samples.end());
    for (std::size_t sample : joined.samples) tiles_[sample].is_tied = true;
    tile_groups_.push_back(std::move(joined));
  }
}

bool JointPrior::tiles_hold(const TileGroup& group, const std::vector<Decision>& decisions) const {
  auto factor = [&](i64 value) {
    const Factor& at = factor_of_value_[static_cast<std::size_t>(value)];
    return decisions[static_cast<std::size_t>(at.sample)].values[at.part];
  };
  return std::all_of(group.conditions.begin(), group.conditions.end(),
                     [&](const Arg* condition) { return evaluate_with(*condition, factor) != 0; });
}

void JointPrior::draw_tiles(const TileGroup& group, std::vector<Decision>& decisions, Rng& rng) const {
  for (int tries = 0; tries < kMaxTileDraws; ++tries) {
    for (std::size_t sample : group.samples) {
      const Tile& tile = tiles_[sample];
      decisions[sample].count = static_cast<u8>(tile.count);
      draw_perfect_tile(tile.extent, tile.count, tile.max_innermost, rng, decisions[sample].values);
    }
    if (tiles_hold(group, decisions)) return;
  }
  for (std::size_t sample : group.samples) decisions[sample] = {};
}

bool JointPrior::is_over_categoricals(const Arg& arg) const {
  std::vector<u32> values;
  values_of(arg, values);
  return !values.empty() && std::all_of(values.begin(), values.end(), [&](u32 value) { return sample_of_value_[value] >= 0; });
}

bool JointPrior::satisfies(const Instruction& instruction) const {
  return std::string_view(instruction.kind->name) == "require" && is_over_categoricals(instruction.arguments[0]);
}

double JointPrior::weight_of(const Group& group, const Index* indices) const {
  double weight = 1;
  for (std::size_t i = 0; i < group.samples.size(); ++i) weight *= static_cast<double>(samples_[group.samples[i]].weights[indices[i]]);
  for (const Arg* preference : group.preferences) weight *= static_cast<double>(evaluate(*preference, indices));
  return weight;
}

i64 JointPrior::evaluate(const Arg& arg, const Index* indices) const {
  return evaluate_with(arg, [&](i64 value) {
    const Sample& sample = samples_[static_cast<std::size_t>(sample_of_value_[static_cast<std::size_t>(value)])];
    return sample.candidates[indices[sample.place]];
  });
}

bool JointPrior::holds(const Group& group, const Index* indices) const {
  return std::all_of(group.conditions.begin(), group.conditions.end(), [&](const Arg* condition) { return evaluate(*condition, indices) != 0; }) &&
         std::all_of(group.preferences.begin(), group.preferences.end(), [&](const Arg* preference) { return evaluate(*preference, indices) >= 1; });
}

bool JointPrior::draw_group(const Group& group, std::vector<Decision>& decisions, Rng& rng) const {
  if (group.enumerated) {
    if (group.assignments.empty()) return false;
    double at = rng.uniform() * group.cumulative.back();
    std::size_t chosen = std::upper_bound(group.cumulative.begin(), group.cumulative.end(), at) - group.cumulative.begin();
    const Index* indices = group.assignment(std::min(chosen, group.cumulative.size() - 1));
    for (std::size_t i = 0; i < group.samples.size(); ++i) decisions[group.samples[i]] = Decision::of(indices[i]);
    return true;
  }
  std::vector<Index> indices(group.samples.size());
  for (int tries = 0; tries < 10000; ++tries) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      indices[i] = static_cast<Index>(rng.below(static_cast<i64>(samples_[group.samples[i]].candidates.size())));
    }
    if (!holds(group, indices.data())) continue;
    for (std::size_t i = 0; i < indices.size(); ++i) decisions[group.samples[i]] = Decision::of(indices[i]);
    return true;
  }
  return false;
}

bool JointPrior::draw(std::vector<Decision>& decisions, Rng& rng) const {
  for (const Group& group : groups_) {
    if (!draw_group(group, decisions, rng)) return false;
  }
  for (const TileGroup& group : tile_groups_) draw_tiles(group, decisions, rng);
  return true;
}

bool JointPrior::is_impossible() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const Group& group) { return group.enumerated && group.assignments.empty(); });
}

bool JointPrior::redraw(std::size_t sample, std::vector<Decision>& decisions, Rng& rng) const {
  const Sample& changed = samples_[sample];
  if (changed.candidates.size() < 2) return false;
  i64 old = decisions[sample].values[0];
  if (changed.group < 0) {
    i64 index = rng.below(static_cast<i64>(changed.candidates.size()) - 1);
    decisions[sample] = Decision::of(index >= old ? index + 1 : index);
    return true;
  }
  const Group& group = groups_[changed.group];
  if (!group.enumerated) return draw_group(group, decisions, rng);
  std::vector<Index> now;
  for (std::size_t member : group.samples) now.push_back(static_cast<Index>(decisions[member].values[0]));
  // Mostly the others can stay as they are, and the assignments need not be looked through.
  std::vector<i64> values;
  std::vector<Index> indices = now;
  for (Index value = 0; value < changed.candidates.size(); ++value) {
    indices[changed.place] = value;
    if (value != now[changed.place] && holds(group, indices.data())) values.push_back(value);
  }
  if (!values.empty()) {
    decisions[sample] = Decision::of(values[static_cast<std::size_t>(rng.below(static_cast<i64>(values.size())))]);
    return true;
  }
  std::vector<std::size_t> nearest;
  std::size_t fewest = group.samples.size() + 1;
  for (std::size_t a = 0; a < group.cumulative.size(); ++a) {
    const Index* assignment = group.assignment(a);
    if (assignment[changed.place] == now[changed.place]) continue;
    std::size_t differing = 0;
    for (std::size_t i = 0; i < now.size(); ++i) differing += assignment[i] != now[i];
    if (differing < fewest) {
      fewest = differing;
      nearest.clear();
    }
    if (differing == fewest) nearest.push_back(a);
  }
  if (nearest.empty()) return false;
  const Index* chosen = group.assignment(nearest[rng.below(static_cast<i64>(nearest.size()))]);
  for (std::size_t i = 0; i < now.size(); ++i) decisions[group.samples[i]] = Decision::of(chosen[i]);
  return true;
}

double JointPrior::log10_groups() const {
  double total = 0;
  for (const Group& group : groups_) {
    double count = static_cast<double>(group.cumulative.size());
    if (!group.enumerated) {
      count = 1;
      for (std::size_t sample : group.samples) count *= static_cast<double>(samples_[sample].candidates.size());
    }
    total += std::log10(std::max(1.0, count));
  }
  return total;
}

bool JointPrior::satisfied(const std::vector<Decision>& decisions) const {
  for (const Group& group : groups_) {
    std::vector<Index> indices;
    for (std::size_t sample : group.samples) indices.push_back(static_cast<Index>(decisions[sample].values[0]));
    if (!holds(group, indices.data())) return false;
  }
  return std::all_of(tile_groups_.begin(), tile_groups_.end(), [&](const TileGroup& group) { return tiles_hold(group, decisions); });
}

}  // namespace tw
