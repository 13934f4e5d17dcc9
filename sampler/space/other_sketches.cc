#include "sampler/space/other_sketches.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <deque>
#include <functional>
#include <unordered_map>

#include "dsl/base/text.h"
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

// An integer, or a list of integers: what follows from extents may be one.
bool is_numbers(const Arg& arg) {
  auto is_int = [](const Arg& item) { return item.tag == Arg::Tag::Int; };
  return is_int(arg) || (arg.tag == Arg::Tag::List && std::all_of(arg.items.begin(), arg.items.end(), is_int));
}

// A hash for each instruction that changes the program, over all that it depends on. If one trace begins like another,
// so do their hashes, whether instructions without effect were dropped or not. Without numbers: if it begins like one
// of another program.
class Effects {
 public:
  explicit Effects(const Trace& trace, bool has_numbers = true) : has_numbers_(has_numbers) {
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
    if (!has_numbers_ && is_numbers(arg)) return mix64(number ^ static_cast<u64>(arg.tag));
    u64 own =
        arg.tag == Arg::Tag::Value ? values_[static_cast<std::size_t>(arg.integer)] : static_cast<u64>(arg.integer);
    number = mix64(number ^ own);
    number = mix64(number ^ (static_cast<u64>(arg.tag) << 8 | static_cast<u64>(arg.op)));
    number = mix64(number ^ std::bit_cast<u64>(arg.number));
    number = mix64(number ^ std::hash<std::string_view>()(arg.text) ^ arg.items.size());
    for (const Arg& item : arg.items) number = mix(number, item);
    return number;
  }

  bool has_numbers_;
  std::vector<u64> numbers_, values_;
};

// Follows the forks whose trace begins like the given one. A wrong fork shows at its first instruction, so few are
// followed for long. Nothing after an error in the text of a rule.
std::vector<Partial> walk_along(const CandidateSpace& space, const Trace& trace, bool has_numbers) {
  Effects wanted(trace, has_numbers);
  Ways ways;
  ways.keep = [&](int, std::vector<Partial>& partials) {
    if (partials.size() > 1)
      std::erase_if(partials, [&](const Partial& partial) {
        return !Effects(partial.schedule.trace(), has_numbers).begins(wanted);
      });
    if (partials.size() > kAllSketches) partials.erase(partials.begin() + kAllSketches, partials.end());
  };
  Space notes;
  RuleWalk walk(setting_of(space), space.space.uses, notes);
  std::vector<Partial> partials = walk.run(ways, 1);
  if (walk.failed()) partials.clear();
  return partials;
}

std::optional<Sketch> walk_to(const CandidateSpace& space, const Trace& trace) {
  std::vector<Partial> partials = walk_along(space, trace, true);
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

// How many numbers differ; nothing where anything else does.
std::optional<int> other_numbers(const Arg& a, const Arg& b) {
  if (a.tag == b.tag && is_numbers(a) && is_numbers(b)) return is_alike(a, b) ? 0 : 1;
  if (a.tag != b.tag || a.op != b.op || a.integer != b.integer || a.text != b.text || a.items.size() != b.items.size())
    return std::nullopt;
  int count = a.number != b.number;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    std::optional<int> own = other_numbers(a.items[i], b.items[i]);
    if (!own) return std::nullopt;
    count += *own;
  }
  return count;
}

std::optional<int> other_numbers(const Trace& a, const Trace& b) {
  if (a.instructions().size() != b.instructions().size()) return std::nullopt;
  int count = 0;
  for (std::size_t i = 0; i < a.instructions().size(); ++i) {
    const Instruction &x = a.instructions()[i], &y = b.instructions()[i];
    if (x.kind != y.kind || x.results != y.results || x.arguments.size() != y.arguments.size()) return std::nullopt;
    for (std::size_t k = 0; k < x.arguments.size(); ++k) {
      std::optional<int> own = other_numbers(x.arguments[k], y.arguments[k]);
      if (!own) return std::nullopt;
      count += *own;
    }
  }
  return count;
}

// The decision of a sample for its counterpart, whose integers to draw from may be others.
Decision carried(const Instruction& from, const Instruction& to) {
  if (from.kind->meaning.draws != Meaning::Draws::OneOf || from.decision.open()) return from.decision;
  const Arg &old = from.arguments[0], &now = to.arguments[0];
  i64 index = from.decision.values[0];
  if (!is_numbers(old) || !is_numbers(now) || index < 0 || index >= static_cast<i64>(old.items.size()))
    return from.decision;
  auto distance = [wanted = old.items[static_cast<std::size_t>(index)].integer](const Arg& item) {
    return std::abs(item.integer - wanted);
  };
  auto nearest = std::min_element(now.items.begin(), now.items.end(),
                                  [&](const Arg& a, const Arg& b) { return distance(a) < distance(b); });
  return Decision::of(nearest - now.items.begin());
}

// The name of a value without the number that is put behind a name that was taken: v_1 is v.
std::string_view plain_name(const Trace& trace, i64 value) {
  std::string_view name = trace.name_of_value(static_cast<u32>(value));
  std::size_t end = name.find_last_not_of("0123456789");
  return end != name.npos && name[end] == '_' ? name.substr(0, end) : name;
}

void add_signature(const Trace& trace, const Arg& arg, std::string& text) {
  text += cat(" ", static_cast<int>(arg.tag), ".", static_cast<int>(arg.op), arg.text);
  if (arg.tag == Arg::Tag::Value) text += plain_name(trace, arg.integer);
  if (is_numbers(arg)) return;
  for (const Arg& item : arg.items) add_signature(trace, item, text);
}

// An instruction without numbers: its kind and the names of what it uses and gives, as its rule wrote them.
std::string signature_of(const Trace& trace, const Instruction& instruction) {
  std::string text(instruction.kind->name);
  for (const Arg& arg : instruction.arguments) add_signature(trace, arg, text);
  for (u32 i = 0; i < instruction.results; ++i) text += cat(" =", plain_name(trace, instruction.first_result + i));
  return text;
}

// The instructions of a trace by signature, each to be taken once, in order.
class BySignature {
 public:
  explicit BySignature(const Trace& trace) {
    for (const Instruction& instruction : trace.instructions())
      instructions_[signature_of(trace, instruction)].push_back(&instruction);
  }
  const Instruction* take(const Trace& trace, const Instruction& like) {
    auto at = instructions_.find(signature_of(trace, like));
    if (at == instructions_.end() || at->second.empty()) return nullptr;
    const Instruction* first = at->second.front();
    at->second.pop_front();
    return first;
  }

 private:
  std::unordered_map<std::string, std::deque<const Instruction*>> instructions_;
};

// The sketch that has most instructions in common with a trace, and the fewest others; -1 if none has half of the
// trace's samples.
int most_alike(const SketchList& sketches, const Trace& trace) {
  int best = -1;
  i64 highest = 0;
  for (std::size_t i = 0; i < sketches.size(); ++i) {
    const Trace& own = sketches[i].trace;
    BySignature others(trace);
    i64 common = 0, samples = 0;
    for (const Instruction& instruction : own.instructions()) {
      if (!others.take(own, instruction)) continue;
      ++common;
      samples += instruction.kind->samples;
    }
    i64 score = 2 * common - static_cast<i64>(own.instructions().size());
    if (2 * samples < static_cast<i64>(trace.sample_count()) || (best >= 0 && score <= highest)) continue;
    best = static_cast<int>(i), highest = score;
  }
  return best;
}

// For each sample of `to` the one of `from` that stands for it, or null: those in the same places if all other
// instructions are the same, else those of the same names.
std::vector<const Instruction*> samples_alike(const Trace& from, const Trace& to) {
  bool are_same = other_numbers(from, to).has_value();
  BySignature others(from);
  std::vector<const Instruction*> alike;
  for (std::size_t i = 0; i < to.instructions().size(); ++i) {
    const Instruction& instruction = to.instructions()[i];
    if (instruction.kind->samples) alike.push_back(are_same ? &from.instructions()[i] : others.take(to, instruction));
  }
  return alike;
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

int find_counterpart(CandidateSpace& space, const Trace& trace) {
  int best = space.space.sketches.find(trace), fewest = -1;
  if (best >= 0) return best;
  auto is_better = [&](const Trace& own) {
    std::optional<int> count = other_numbers(own, trace);
    bool better = count && (fewest < 0 || *count < fewest);
    if (better) fewest = *count;
    return better;
  };
  for (std::size_t i = 0; i < space.space.sketches.size(); ++i) {
    if (is_better(space.space.sketches[i].trace)) best = static_cast<int>(i);
  }
  if (best >= 0) return best;
  if (!space.space.is_whole) {
    for (Partial& partial : walk_along(space, trace, false)) {
      Sketch made = finished(std::move(partial), space.base);
      if (is_better(made.trace)) best = number_of(space, std::move(made));
    }
  }
  return best >= 0 ? best : most_alike(space.space.sketches, trace);
}

void take_valid(const JointPrior& prior, const std::vector<Decision>& wanted, std::vector<Decision>& decisions) {
  if (std::vector<Decision> all = wanted; prior.fit(all)) {
    decisions = std::move(all);
    return;
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == decisions[i]) continue;
    std::vector<Decision> kept = decisions;
    kept[i] = wanted[i];
    if (prior.fit(kept)) decisions = std::move(kept);
  }
}

bool carry_decisions(const CandidateSpace& space, int sketch, const Trace& trace,
                     const std::function<bool(std::size_t sample)>& keep, Candidate& candidate, Rng& rng) {
  const Sketch& to = space.space.sketches[static_cast<std::size_t>(sketch)];
  std::vector<Decision> decisions(to.trace.sample_count());
  if (!to.prior->draw(decisions, rng)) return false;
  std::vector<Decision> wanted = decisions;
  std::vector<const Instruction*> alike = samples_alike(trace, to.trace);
  std::size_t sample = 0;
  for (const Instruction& instruction : to.trace.instructions()) {
    if (!instruction.kind->samples) continue;
    if (alike[sample] && keep(sample)) wanted[sample] = carried(*alike[sample], instruction);
    ++sample;
  }
  take_valid(*to.prior, wanted, decisions);
  candidate.sketch = sketch;
  candidate.decisions = std::move(decisions);
  return true;
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
