#include "sampler/space/other_sketches.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "sampler/space/rule_walk.h"

namespace tw {
namespace {

RuleSetting setting_of(const CandidateSpace& space) { return {space.base, *space.library, space.facts}; }

// The one sketch to which `ways` leads; nullopt after an error in the text of a rule.
std::optional<Sketch> walked(const CandidateSpace& space, const Ways& ways) {
  Space notes;
  RuleWalk walk(setting_of(space), space.space.uses, notes);
  std::vector<Partial> partials = walk.run(ways, 1);
  if (walk.failed() || partials.size() != 1) return std::nullopt;
  return finished(std::move(partials[0]), space.base);
}

int number_of(CandidateSpace& space, Sketch sketch) {
  int known = space.space.sketches.find(sketch.trace);
  return known >= 0 ? known : space.space.sketches.add(std::move(sketch));
}

int build_with_fork(CandidateSpace& space, const Sketch& from, std::size_t changed, int taken) {
  auto fork_at = [&](int place) {
    return std::find_if(from.forks.begin(), from.forks.end(), [&](const Fork& fork) { return fork.place == place; });
  };
  Ways ways;
  ways.only = [&](int place) -> const Fork* {
    auto fork = fork_at(place);
    return fork == from.forks.end() || fork->choices.empty() || place == from.forks[changed].place ? nullptr : &*fork;
  };
  ways.keep = [&](int place, std::vector<Partial>& partials) {
    if (partials.size() == 1) return;
    auto fork = fork_at(place);
    std::size_t wanted = fork == from.forks.end()
                             ? 0
                             : static_cast<std::size_t>(place == from.forks[changed].place ? taken : fork->taken);
    Partial chosen = std::move(partials[std::min(wanted, partials.size() - 1)]);
    partials.clear();
    partials.push_back(std::move(chosen));
  };
  std::optional<Sketch> made = walked(space, ways);
  return made ? number_of(space, std::move(*made)) : -1;
}

// ---- the sketch of a stored trace

// A hash for each instruction that changes the program, over all that it depends on. If one trace begins like another,
// so do their hashes, whether instructions without effect were dropped or not.
class Effects {
 public:
  explicit Effects(const Trace& trace) {
    for (const Instruction& instruction : trace.instructions()) add(instruction);
  }
  bool begins(const Effects& other) const {
    return numbers_.size() <= other.numbers_.size() &&
           std::equal(numbers_.begin(), numbers_.end(), other.numbers_.begin());
  }

 private:
  void add(const Instruction& instruction) {
    u64 number = std::hash<const void*>()(instruction.kind);
    for (const Arg& arg : instruction.arguments) number = mix(number, arg);
    if (instruction.kind->pure)
      number = mix64(number ^ numbers_.size());
    else
      numbers_.push_back(number);
    for (u32 result = 0; result < instruction.results; ++result) values_.push_back(mix64(number + result));
  }
  u64 mix(u64 number, const Arg& arg) const {
    u64 own =
        arg.tag == Arg::Tag::Value ? values_[static_cast<std::size_t>(arg.integer)] : static_cast<u64>(arg.integer);
    number = mix64(number ^ own);
    number = mix64(number ^ (static_cast<u64>(arg.tag) << 8 | static_cast<u64>(arg.op)));
    number = mix64(number ^ std::bit_cast<u64>(arg.number));
    number = mix64(number ^ std::hash<std::string_view>()(arg.text) ^ arg.items.size());
    for (const Arg& item : arg.items) number = mix(number, item);
    return number;
  }

  std::vector<u64> numbers_, values_;
};

// Follows the forks whose trace begins like the given one. A wrong fork shows at its first instruction, so few are
// followed for long.
std::optional<Sketch> walk_to(const CandidateSpace& space, const Trace& trace) {
  Effects wanted(trace);
  Ways ways;
  ways.keep = [&](int, std::vector<Partial>& partials) {
    if (partials.size() > 1)
      std::erase_if(partials,
                    [&](const Partial& partial) { return !Effects(partial.schedule.trace()).begins(wanted); });
    if (partials.size() > kAllSketches) partials.erase(partials.begin() + kAllSketches, partials.end());
  };
  Space notes;
  RuleWalk walk(setting_of(space), space.space.uses, notes);
  std::vector<Partial> partials = walk.run(ways, 1);
  if (walk.failed()) return std::nullopt;
  Hash128 hash = trace.with_decisions(std::vector<Decision>(trace.sample_count())).hash();
  for (Partial& partial : partials) {
    Sketch made = finished(std::move(partial), space.base);
    if (made.trace.with_decisions(std::vector<Decision>(made.trace.sample_count())).hash() == hash) return made;
  }
  return std::nullopt;
}

// ---- decisions of one sketch for another

// Compares arguments and instructions, but not which earlier values they use.
bool is_alike(const Arg& a, const Arg& b) {
  bool is_same =
      a.tag == b.tag && a.op == b.op && (a.tag == Arg::Tag::Value || a.integer == b.integer) && a.text == b.text;
  return is_same && a.items.size() == b.items.size() &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), is_alike);
}

bool is_alike(const Instruction& a, const Instruction& b) {
  return a.kind == b.kind && a.results == b.results &&
         std::equal(a.arguments.begin(), a.arguments.end(), b.arguments.begin(), b.arguments.end(),
                    [](const Arg& x, const Arg& y) { return is_alike(x, y); });
}

struct Site {
  const Instruction* instruction;
  int place;
  std::size_t sample;
};

std::vector<Site> sites_of(const Sketch& sketch) {
  std::vector<Site> sites;
  for (std::size_t i = 0; i < sketch.places.size(); ++i) {
    const Instruction& instruction = sketch.trace.instructions()[i];
    if (instruction.kind->samples) sites.push_back({&instruction, sketch.places[i], sites.size()});
  }
  return sites;
}

// For each sample of `to`, the first unused sample of `from` in the same place that is alike.
std::vector<std::optional<std::size_t>> counterparts(const Sketch& from, const Sketch& to) {
  std::vector<Site> old = sites_of(from);
  std::vector<std::optional<std::size_t>> out(to.trace.sample_count());
  std::vector<bool> is_taken(old.size(), false);
  for (const Site& site : sites_of(to)) {
    for (std::size_t i = 0; i < old.size() && !out[site.sample]; ++i) {
      if (is_taken[i] || old[i].place != site.place || !is_alike(*old[i].instruction, *site.instruction)) continue;
      is_taken[i] = true;
      out[site.sample] = old[i].sample;
    }
  }
  return out;
}

}  // namespace

int with_fork(CandidateSpace& space, int sketch, std::size_t fork, int taken) {
  auto [known, is_new] = space.ways.try_emplace({sketch, fork, taken}, -1);
  if (is_new)
    known->second = build_with_fork(space, space.space.sketches[static_cast<std::size_t>(sketch)], fork, taken);
  return known->second;
}

int find_sketch(CandidateSpace& space, const Trace& trace) {
  int known = space.space.sketches.find(trace);
  if (known >= 0 || space.space.is_whole) return known;
  std::optional<Sketch> made = walk_to(space, trace);
  return made ? space.space.sketches.add(std::move(*made)) : -1;
}

bool move_to_sketch(const CandidateSpace& space, Candidate& candidate, int sketch, Rng& rng) {
  const Sketch& from = space.space.sketches[static_cast<std::size_t>(candidate.sketch)];
  const Sketch& to = space.space.sketches[static_cast<std::size_t>(sketch)];
  std::vector<Decision> decisions(to.trace.sample_count());
  if (!to.prior->draw(decisions, rng)) return false;
  std::vector<Site> sites = sites_of(to);
  std::vector<std::optional<std::size_t>> same = counterparts(from, to);
  // Place by place: if old decisions do not satisfy the conditions with new ones of a place, only those of that place
  // are dropped.
  for (std::size_t first = 0, last = 0; first < sites.size(); first = last) {
    std::vector<Decision> kept = decisions;
    for (; last < sites.size() && sites[last].place == sites[first].place; ++last) {
      if (same[last]) kept[last] = candidate.decisions[*same[last]];
    }
    if (to.prior->fit(kept)) decisions = std::move(kept);
  }
  candidate.sketch = sketch;
  candidate.decisions = std::move(decisions);
  return true;
}

}  // namespace tw
