#include "sampler/draw/joint_prior.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

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

constexpr int kMaxTileDraws = 5000;  // a millisecond

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
    Meaning::Draws draws = instruction.kind->meaning.draws;
    made_by_draws = std::min<std::size_t>(made_by_draws, instruction.first_result);
    Sample sample;
    if (draws == Meaning::Draws::OneOf && is_literal_list(instruction.arguments[0])) {
      for (const Arg& item : instruction.arguments[0].items) sample.candidates.push_back(item.integer);
      for (const Arg& item : instruction.arguments[1].items) sample.weights.push_back(item.integer);
      if (sample.weights.empty()) sample.weights.assign(sample.candidates.size(), 1);
      sample_of_value_[instruction.first_result] = static_cast<int>(samples_.size());
    }
    Tile tile;
    if (draws == Meaning::Draws::Divisors || draws == Meaning::Draws::Factors)
      tile = tile_of(instruction, made_by_draws);
    for (int i = 0; i < tile.count; ++i)
      factor_of_value_[instruction.first_result + static_cast<u32>(i)] = {static_cast<int>(samples_.size()), i};
    samples_.push_back(std::move(sample));
    tiles_.push_back(tile);
  }
}

JointPrior::Tile JointPrior::tile_of(const Instruction& instruction, std::size_t made_by_draws) const {
  const Arg &loop = instruction.arguments[0], &limit = instruction.arguments[2];
  if (loop.tag != Arg::Tag::Value || limit.tag != Arg::Tag::Int) return {};
  Tile tile{extents_.of(static_cast<u32>(loop.integer)), limit.integer, static_cast<int>(instruction.results),
            instruction.kind->meaning.draws == Meaning::Draws::Divisors};
  if (!tile.extent && tile.is_perfect && static_cast<std::size_t>(loop.integer) < made_by_draws &&
      !instruction.decision.open()) {
    i64 extent = 1;
    for (int i = 0; i < instruction.decision.count; ++i) extent *= instruction.decision.values[i];
    tile.extent = extents_.constant(extent);
  }
  return tile.extent && reach_of(*tile.extent) != Reach::Replay ? tile : Tile{};
}

// Fills the places of a group: a condition is asked as soon as the samples in it have their values, so that what it
// excludes is not visited.
class JointPrior::Table {
 public:
  Table(const JointPrior& prior, Group& group, i64 max_steps)
      : prior_(prior), group_(group), steps_left_(max_steps), indices_(group.samples.size()) {}

  void run() {
    group_.places.resize(group_.samples.size());
    for (const Arg* condition : group_.conditions) place_of(*condition).conditions.push_back(condition);
    for (const Arg* preference : group_.preferences) place_of(*preference).preferences.push_back(preference);
    group_.has_table = find_frontiers();
    if (group_.has_table) group_.all = fill(0);
    if (group_.has_table) return;
    for (Place& place : group_.places) place.rests.clear();
    for (const Arg* preference : group_.preferences) group_.largest_preference *= largest(*preference);
  }

 private:
  std::vector<std::size_t> places_in(const Arg& arg) const {
    std::vector<u32> values;
    values_of(arg, values);
    std::vector<std::size_t> out;
    for (u32 value : values) out.push_back(prior_.samples_[prior_.sample_of_value_[value]].place);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }
  Place& place_of(const Arg& arg) { return group_.places[places_in(arg).back()]; }
  std::size_t candidates_at(std::size_t place) const {
    return prior_.samples_[group_.samples[place]].candidates.size();
  }

  // The frontier of a place: the ones before it that are mentioned where it, or one behind it, is the last. False if
  // their values do not fit into a key.
  bool find_frontiers() {
    for (const auto* list : {&group_.conditions, &group_.preferences}) {
      for (const Arg* arg : *list) {
        std::vector<std::size_t> mentioned = places_in(*arg);
        for (std::size_t earlier : mentioned) {
          for (std::size_t place = earlier + 1; place <= mentioned.back(); ++place)
            group_.places[place].frontier.push_back(earlier);
        }
      }
    }
    for (Place& place : group_.places) {
      std::sort(place.frontier.begin(), place.frontier.end());
      place.frontier.erase(std::unique(place.frontier.begin(), place.frontier.end()), place.frontier.end());
      double keys = 1;
      for (std::size_t earlier : place.frontier) keys *= static_cast<double>(candidates_at(earlier));
      if (keys >= 0x1p63) return false;
    }
    return true;
  }

  Rest fill(std::size_t place) {
    if (place == indices_.size()) return {1, 1};
    u64 key = prior_.key_of(group_, group_.places[place], indices_.data());
    if (auto known = group_.places[place].rests.find(key); known != group_.places[place].rests.end())
      return known->second;
    Rest sum;
    std::size_t count = candidates_at(place);
    for (indices_[place] = 0; indices_[place] < count && group_.has_table; ++indices_[place]) {
      group_.has_table = --steps_left_ >= 0;
      double weight = prior_.weight_at(group_, place, indices_.data());
      if (weight == 0) continue;
      Rest rest = fill(place + 1);
      sum.weight += weight * rest.weight;
      sum.count += rest.count;
    }
    return group_.places[place].rests[key] = sum;
  }

  // 1, so that it does not weigh, where there are too many values to try.
  double largest(const Arg& preference) {
    std::vector<std::size_t> places = places_in(preference);
    double combinations = 1, most = 1;
    for (std::size_t place : places) combinations *= static_cast<double>(candidates_at(place));
    if (combinations > static_cast<double>(kMaxSteps)) return 1;
    for (i64 i = 0; i < static_cast<i64>(combinations); ++i) {
      i64 rest = i;
      for (std::size_t place : places) {
        auto count = static_cast<i64>(candidates_at(place));
        indices_[place] = static_cast<Index>(rest % count);
        rest /= count;
      }
      most = std::max(most, static_cast<double>(prior_.evaluate(preference, indices_.data())));
    }
    return most;
  }

  const JointPrior& prior_;
  Group& group_;
  i64 steps_left_;
  std::vector<Index> indices_;
};

// The valid assignments that differ from one at a place and at so many others.
class JointPrior::Repair {
 public:
  Repair(const JointPrior& prior, const Group& group, const std::vector<Index>& now, std::size_t changed)
      : prior_(prior), group_(group), now_(now), changed_(changed), indices_(now) {}

  // One of them, each as likely. Empty if there is none.
  std::vector<Index> draw(std::size_t others, Rng& rng) {
    found_.clear();
    assign(0, others);
    if (found_.empty()) return {};
    auto size = static_cast<i64>(now_.size());
    i64 chosen = rng.below(static_cast<i64>(found_.size()) / size);
    return {found_.begin() + chosen * size, found_.begin() + (chosen + 1) * size};
  }

 private:
  void assign(std::size_t place, std::size_t changes_left) {
    if (place == indices_.size()) {
      if (changes_left == 0) found_.insert(found_.end(), indices_.begin(), indices_.end());
      return;
    }
    if (changes_left > indices_.size() - place) return;
    std::size_t count = prior_.samples_[group_.samples[place]].candidates.size();
    for (Index value = 0; value < count; ++value) {
      bool is_change = value != now_[place];
      if (place == changed_ ? !is_change : is_change && changes_left == 0) continue;
      indices_[place] = value;
      if (prior_.weight_at(group_, place, indices_.data()) == 0) continue;
      if (group_.has_table && prior_.rest_of(group_, place + 1, indices_.data()).count == 0) continue;
      assign(place + 1, changes_left - (is_change && place != changed_));
    }
    indices_[place] = now_[place];
  }

  const JointPrior& prior_;
  const Group& group_;
  const std::vector<Index>& now_;
  std::size_t changed_;
  std::vector<Index> indices_, found_;
};

u64 JointPrior::key_of(const Group& group, const Place& place, const Index* indices) const {
  u64 key = 0;
  for (std::size_t earlier : place.frontier)
    key = key * samples_[group.samples[earlier]].candidates.size() + indices[earlier];
  return key;
}

JointPrior::JointPrior(const Trace& trace, Extents extents, i64 max_steps)
    : trace_(trace),
      extents_(std::move(extents)),
      sample_of_value_(trace.value_count(), -1),
      factor_of_value_(trace.value_count()) {
  struct Factor {
    const Arg* arg;
    bool is_preference;
  };
  find_samples();
  // Union the categorical samples of each condition and weight; one over anything else is checked at replay only.
  std::vector<int> parent(samples_.size());
  std::iota(parent.begin(), parent.end(), 0);
  std::vector<std::pair<Factor, int>> usable;
  std::vector<const Arg*> of_tiles;
  for (const Instruction& instruction : trace_.instructions()) {
    bool is_preference = instruction.kind->meaning.is_weight;
    if (!instruction.kind->meaning.is_condition && !is_preference) continue;
    std::vector<const Arg*> parts;
    if (is_preference)
      parts = {&instruction.arguments[0]};
    else
      add_parts(instruction.arguments[0], parts);
    bool are_known = true;
    for (const Arg* part : parts) {
      const Arg* known = extents_.resolved(*part);
      Reach reach = known ? reach_of(*known) : Reach::Replay;
      are_known &= reach != Reach::Replay;
      if (reach == Reach::Tiles && !is_preference) of_tiles.push_back(known);
      std::vector<u32> values;
      if (known) values_of(*known, values);
      if (reach != Reach::Categoricals || values.empty()) continue;
      int first = sample_of_value_[values[0]];
      for (u32 value : values) parent[root_of(parent, sample_of_value_[value])] = root_of(parent, first);
      usable.push_back({{known, is_preference}, first});
    }
    if (are_known && !is_preference) satisfied_.insert(instruction.arguments.data());
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
    (factor.is_preference ? group.preferences : group.conditions).push_back(factor.arg);
  }
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    samples_[i].group = group_of_root.empty() ? -1 : group_of_root[root_of(parent, static_cast<int>(i))];
    if (samples_[i].group < 0) continue;
    std::vector<std::size_t>& members = groups_[samples_[i].group].samples;
    samples_[i].place = members.size();
    members.push_back(i);
  }
  for (Group& group : groups_) Table(*this, group, max_steps).run();
}

JointPrior::Reach JointPrior::reach_of(const Arg& arg) const {
  if (arg.tag == Arg::Tag::Int) return Reach::Categoricals;
  if (arg.tag == Arg::Tag::Value) {
    auto value = static_cast<std::size_t>(arg.integer);
    return sample_of_value_[value] >= 0          ? Reach::Categoricals
           : factor_of_value_[value].sample >= 0 ? Reach::Tiles
                                                 : Reach::Replay;
  }
  if (arg.tag != Arg::Tag::Binary) return Reach::Replay;
  return std::max(reach_of(arg.items[0]), reach_of(arg.items[1]));
}

// Tiles that share a condition are drawn together, and a tile with those that decide the extent of its loop.
void JointPrior::tie_tiles(const std::vector<const Arg*>& conditions) {
  std::vector<int> parent(tiles_.size());
  std::iota(parent.begin(), parent.end(), 0);
  auto tiles_in = [&](const Arg& arg) {
    std::vector<u32> values;
    values_of(arg, values);
    std::vector<int> out;
    for (u32 value : values) {
      if (factor_of_value_[value].sample >= 0) out.push_back(factor_of_value_[value].sample);
    }
    return out;
  };
  auto tie = [&](int tile, const Arg& arg) {
    for (int other : tiles_in(arg)) parent[root_of(parent, other)] = root_of(parent, tile);
  };
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    if (draws_tile(i)) tie(static_cast<int>(i), *tiles_[i].extent);
  }
  for (const Arg* condition : conditions) tie(tiles_in(*condition)[0], *condition);
  std::map<int, TileGroup> groups;
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    if (draws_tile(i)) groups[root_of(parent, static_cast<int>(i))].samples.push_back(i);
  }
  for (const Arg* condition : conditions)
    groups[root_of(parent, tiles_in(*condition)[0])].conditions.push_back(condition);
  for (auto& [root, group] : groups) tile_groups_.push_back(std::move(group));
}

i64 JointPrior::evaluate(const Arg& arg, const std::vector<Decision>& decisions) const {
  return evaluate_with(arg, [&](i64 value) {
    const Factor& factor = factor_of_value_[static_cast<std::size_t>(value)];
    if (factor.sample >= 0) return decisions[static_cast<std::size_t>(factor.sample)].values[factor.part];
    auto sample = static_cast<std::size_t>(sample_of_value_[static_cast<std::size_t>(value)]);
    return samples_[sample].candidates[static_cast<std::size_t>(decisions[sample].values[0])];
  });
}

// Is every decision there that the expression asks for?
bool JointPrior::is_decided(const Arg& arg, const std::vector<Decision>& decisions) const {
  if (arg.tag == Arg::Tag::Value) {
    int tile = factor_of_value_[static_cast<std::size_t>(arg.integer)].sample;
    return !decisions[static_cast<std::size_t>(tile >= 0 ? tile
                                                         : sample_of_value_[static_cast<std::size_t>(arg.integer)])]
                .open();
  }
  return std::all_of(arg.items.begin(), arg.items.end(), [&](const Arg& item) { return is_decided(item, decisions); });
}

bool JointPrior::tiles_hold(const TileGroup& group, const std::vector<Decision>& decisions) const {
  return std::all_of(group.conditions.begin(), group.conditions.end(), [&](const Arg* condition) {
    return !is_decided(*condition, decisions) || evaluate(*condition, decisions) != 0;
  });
}

bool JointPrior::draw_tiles(const TileGroup& group, std::vector<Decision>& decisions, Rng& rng) const {
  for (int tries = 0; tries < kMaxTileDraws; ++tries) {
    for (std::size_t sample : group.samples) {
      const Tile& tile = tiles_[sample];
      i64 extent = evaluate(*tile.extent, decisions);
      if (extent < 1) return false;
      decisions[sample].count = static_cast<u8>(tile.count);
      auto draw = tile.is_perfect ? draw_perfect_tile : draw_tile;
      draw(extent, tile.count, tile.max_innermost, rng, decisions[sample].values);
    }
    if (tiles_hold(group, decisions)) return true;
  }
  return false;
}

bool JointPrior::fit(std::vector<Decision>& decisions) const {
  for (std::size_t sample = 0; sample < tiles_.size(); ++sample) {
    const Tile& tile = tiles_[sample];
    Decision& decision = decisions[sample];
    if (decision.count != tile.count || tile.count == 0 || !is_decided(*tile.extent, decisions)) continue;
    i64 extent = evaluate(*tile.extent, decisions);
    if (tile.is_perfect)
      fit_perfect_tile(extent, tile.count, decision.values);
    else
      fit_tile(extent, tile.count, tile.max_innermost, decision.values);
  }
  return satisfied(decisions);
}

double JointPrior::weight_at(const Group& group, std::size_t place, const Index* indices) const {
  const Place& here = group.places[place];
  for (const Arg* condition : here.conditions) {
    if (evaluate(*condition, indices) == 0) return 0;
  }
  auto weight = static_cast<double>(samples_[group.samples[place]].weights[indices[place]]);
  for (const Arg* preference : here.preferences)
    weight *= static_cast<double>(std::max<i64>(evaluate(*preference, indices), 0));
  return weight;
}

JointPrior::Rest JointPrior::rest_of(const Group& group, std::size_t place, const Index* indices) const {
  if (place == group.samples.size()) return {1, 1};
  const auto& rests = group.places[place].rests;
  auto found = rests.find(key_of(group, group.places[place], indices));
  return found == rests.end() ? Rest{} : found->second;
}

i64 JointPrior::evaluate(const Arg& arg, const Index* indices) const {
  return evaluate_with(arg, [&](i64 value) {
    const Sample& sample = samples_[static_cast<std::size_t>(sample_of_value_[static_cast<std::size_t>(value)])];
    return sample.candidates[indices[sample.place]];
  });
}

bool JointPrior::holds(const Group& group, const Index* indices) const {
  return std::all_of(group.conditions.begin(), group.conditions.end(),
                     [&](const Arg* condition) { return evaluate(*condition, indices) != 0; }) &&
         std::all_of(group.preferences.begin(), group.preferences.end(),
                     [&](const Arg* preference) { return evaluate(*preference, indices) >= 1; });
}

// One number decides, as if all assignments stood in a row, the value of the last sample changing fastest.
void JointPrior::draw_by_table(const Group& group, std::vector<Index>& indices, Rng& rng) const {
  double at = rng.uniform() * group.all.weight, before = 1;
  for (std::size_t place = 0; place < indices.size(); ++place) {
    std::size_t count = samples_[group.samples[place]].candidates.size();
    Index chosen = 0;
    double chosen_weight = 0;
    for (Index value = 0; value < count; ++value) {
      indices[place] = value;
      double weight = weight_at(group, place, indices.data());
      double all = weight == 0 ? 0 : before * weight * rest_of(group, place + 1, indices.data()).weight;
      if (all == 0) continue;
      if (chosen_weight > 0) at -= chosen_weight;  // of the value before this one
      chosen = value;
      chosen_weight = all;
      if (at < all) break;
    }
    indices[place] = chosen;
    before *= weight_at(group, place, indices.data());
  }
}

JointPrior::Index JointPrior::draw_index(const Sample& sample, Rng& rng) const {
  i64 at = rng.below(std::accumulate(sample.weights.begin(), sample.weights.end(), i64{0}));
  Index index = 0;
  for (; at >= sample.weights[index]; ++index) at -= sample.weights[index];
  return index;
}

bool JointPrior::draw_by_rejection(const Group& group, std::vector<Index>& indices, Rng& rng) const {
  constexpr int kTries = 100000;
  for (int tries = 0; tries < kTries; ++tries) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      indices[i] = draw_index(samples_[group.samples[i]], rng);
    }
    if (!holds(group, indices.data())) continue;
    double preference = 1;
    for (const Arg* one : group.preferences) preference *= static_cast<double>(evaluate(*one, indices.data()));
    if (group.largest_preference <= 1 || rng.uniform() * group.largest_preference < preference) return true;
  }
  return false;
}

bool JointPrior::draw_group(const Group& group, std::vector<Decision>& decisions, Rng& rng) const {
  if (group.has_table && group.all.weight == 0) return false;
  std::vector<Index> indices(group.samples.size());
  if (group.has_table)
    draw_by_table(group, indices, rng);
  else if (!draw_by_rejection(group, indices, rng))
    return false;
  for (std::size_t i = 0; i < indices.size(); ++i) decisions[group.samples[i]] = Decision::of(indices[i]);
  return true;
}

bool JointPrior::draw(std::vector<Decision>& decisions, Rng& rng) const {
  for (const Group& group : groups_) {
    if (!draw_group(group, decisions, rng)) return false;
  }
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (samples_[i].group < 0 && !samples_[i].candidates.empty())
      decisions[i] = Decision::of(draw_index(samples_[i], rng));
  }
  return std::all_of(tile_groups_.begin(), tile_groups_.end(),
                     [&](const TileGroup& group) { return draw_tiles(group, decisions, rng); });
}

bool JointPrior::is_impossible() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const Group& group) { return group.has_table && group.all.count == 0; });
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
  Repair repair(*this, group, now, changed.place);
  constexpr std::size_t kMostBlind = 3;
  std::size_t most = group.has_table ? now.size() - 1 : std::min(kMostBlind, now.size() - 1);
  for (std::size_t others = 1; others <= most; ++others) {
    std::vector<Index> found = repair.draw(others, rng);
    for (std::size_t i = 0; i < found.size(); ++i) decisions[group.samples[i]] = Decision::of(found[i]);
    if (!found.empty()) return true;
  }
  return false;
}

double JointPrior::log10_groups() const {
  double total = 0;
  for (const Group& group : groups_) {
    double count = group.has_table ? group.all.count : 1;
    if (!group.has_table) {
      for (std::size_t sample : group.samples) count *= static_cast<double>(samples_[sample].candidates.size());
    }
    total += std::log10(std::max(1.0, count));
  }
  return total;
}

double JointPrior::log_weight(const std::vector<Decision>& decisions) const {
  double total = 0;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (!samples_[i].candidates.empty())
      total += std::log(static_cast<double>(samples_[i].weights[static_cast<std::size_t>(decisions[i].values[0])]));
  }
  for (const Group& group : groups_) {
    for (const Arg* preference : group.preferences)
      total += std::log(static_cast<double>(std::max<i64>(0, evaluate(*preference, decisions))));
  }
  return total;
}

bool JointPrior::satisfied(const std::vector<Decision>& decisions) const {
  for (const Group& group : groups_) {
    std::vector<Index> indices;
    for (std::size_t sample : group.samples) indices.push_back(static_cast<Index>(decisions[sample].values[0]));
    if (!holds(group, indices.data())) return false;
  }
  return std::all_of(tile_groups_.begin(), tile_groups_.end(),
                     [&](const TileGroup& group) { return tiles_hold(group, decisions); });
}

}  // namespace tw
