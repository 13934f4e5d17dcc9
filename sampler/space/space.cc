#include "sampler/space/space.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>

#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "sampler/draw/tiles.h"
#include "sampler/space/rule_walk.h"

namespace tw {
namespace {

Trace opened(const Trace& trace) { return trace.with_decisions(std::vector<Decision>(trace.sample_count())); }

// Keeps the first partial sketch and `others` more, drawn in proportion to their weights (how many sketches each stands
// for), and gives them the weight of all.
void thin(std::vector<Partial>& partials, int others, Rng& rng) {
  double all = 0, reached = 0;
  for (std::size_t i = 1; i < partials.size(); ++i) all += partials[i].weight;
  // One random point in each of equal parts of the weight: points at equal distances could fall on the same alternative
  // each time.
  double step = all / others, next = rng.uniform() * step;
  int part = 0;
  std::vector<Partial> left;
  left.push_back(std::move(partials[0]));
  for (std::size_t i = 1; i < partials.size(); ++i) {
    reached += partials[i].weight;
    double stands_for = 0;
    for (; part < others && next < reached; next = (++part + rng.uniform()) * step) stands_for += step;
    if (stands_for == 0) continue;
    left.push_back(std::move(partials[i]));
    left.back().weight = stands_for;
  }
  partials = std::move(left);
}

}  // namespace

int SketchList::find(const Trace& trace) const {
  auto known = numbers_.find(opened(trace).hash());
  return known == numbers_.end() ? -1 : known->second;
}

int SketchList::add(Sketch sketch) {
  if (list_.size() == kMost) return -1;
  int number = static_cast<int>(list_.size());
  numbers_.emplace(opened(sketch.trace).hash(), number);
  list_.push_back(std::make_shared<const Sketch>(std::move(sketch)));
  return number;
}

std::vector<std::string> rules_without_effect(const Space& space) {
  static const rules::Library built_in = rules::Library::built_in();
  std::map<std::string, std::pair<bool, bool>> seen;  // applied, kept
  for (const RuleVisit& visit : space.visits) {
    auto& [applied, kept] = seen[visit.rule];
    applied |= visit.applied, kept |= visit.kept > 0;
  }
  std::vector<std::string> out;
  for (const auto& [rule, was] : seen) {
    if (!was.first || was.second || built_in.find_rule(rule)) continue;
    auto why = std::find_if(space.rejects.begin(), space.rejects.end(),
                            [&](const rules::ForkReject& reject) { return reject.rule == rule && !reject.is_caught; });
    if (why != space.rejects.end())
      out.push_back(cat("the rule `", rule, "` fits, but all that it does is rejected: ", why->reason));
  }
  return out;
}

Space build_space(const Program& program, const std::vector<rules::RuleUse>& uses, const rules::Library& library,
                  const rules::TargetFacts& target, std::string& errors, u64 seed, const std::function<bool()>& stop) {
  Space space;
  space.uses = uses;
  auto without = [&](const rules::RuleUse& failed, const std::string& error) {
    errors += error;
    std::vector<rules::RuleUse> others;
    std::copy_if(uses.begin(), uses.end(), std::back_inserter(others),
                 [&](const rules::RuleUse& other) { return other.rule != failed.rule; });
    return build_space(program, others, library, target, errors, seed, stop);
  };
  RuleWalk walk({program, library, target}, uses, space);
  Rng rng(1);
  std::size_t most = kAllSketches;
  auto keep = [&](int, std::vector<Partial>& partials) {
    if (partials.size() <= most) return;
    most = kFirstSketches;
    thin(partials, kFirstSketches - 1, rng);
  };
  std::vector<Partial> partials = walk.run({.keep = keep, .only = {}, .stop = stop}, seed), by_hand;
  if (walk.failed()) return without(*walk.failed(), walk.error());
  for (const rules::RuleUse& use : uses) {
    if (!use.rule->is_schedule() || (stop && stop())) continue;
    Diagnostics diagnostics(*use.module->source);
    std::vector<Partial> made = walk.run_schedule(use, seed, diagnostics);
    std::move(made.begin(), made.end(), std::back_inserter(by_hand));
    if (diagnostics.has_errors())
      return without(use, cat(diagnostics.render(), use.rule->kind(), " `", use.rule->name, "` is left out (",
                              program.name, ")\n"));
  }
  if (!by_hand.empty() && !walk.has_rules()) partials.clear();
  std::move(by_hand.begin(), by_hand.end(), std::back_inserter(partials));
  space.is_whole = most == kAllSketches;
  for (Partial& partial : partials) {
    double weight = partial.weight;
    Sketch sketch = finished(std::move(partial), program);
    bool is_known = space.sketches.find(sketch.trace) >= 0;
    if (!is_known) space.sketches.add(std::move(sketch));
    if (!is_known || !space.is_whole) space.count += weight;
  }
  return space;
}

namespace {

// "sm_90a" is 90.
i64 sm_of(const Target& target) {
  if (target.kind != TargetKind::Cuda || !target.arch.starts_with("sm_")) return 0;
  return std::atoll(target.arch.c_str() + 3);
}

}  // namespace

rules::TargetFacts facts_of(const Target& target) {
  return {.vector_bits = target.vector_bits,
          .vector_registers = target.vector_registers,
          .threads = target.threads,
          .l1_bytes = target.l1_bytes,
          .l2_bytes = target.l2_bytes,
          .l3_bytes = target.l3_bytes,
          .cache_line = target.cache_line,
          .group_threads = target.group_threads,
          .shared_bytes = target.shared_bytes,
          .sm = sm_of(target),
          .wgmma = target.kind == TargetKind::Cuda && target.arch == "sm_90a",
          .vtcm_bytes = target.vtcm_bytes};
}

Reject no_draw(const Sketch& sketch) {
  TW_CHECK(sketch.condition_step >= 0, "nothing can be drawn from a sketch without conditions");
  Reject why = impossible_at(Str(sketch.condition));
  why.step = sketch.condition_step;
  why.instruction = sketch.trace.instructions()[static_cast<std::size_t>(why.step)].kind->name;
  return why;
}

void add_template(Space& space, const Trace& trace) {
  if (space.sketches.add(make_sketch(trace, {"template"})) >= 0) space.count += 1;
}

double log10_points(const Sketch& sketch) {
  double total = sketch.prior->log10_groups();
  std::size_t sample = 0;
  for (const Instruction& instruction : sketch.trace.instructions()) {
    if (!instruction.kind->samples) continue;
    const std::vector<i64>& candidates = sketch.prior->candidates(sample);
    bool grouped = sketch.prior->in_group(sample++);
    if (grouped) continue;
    if (!candidates.empty()) {
      total += std::log10(static_cast<double>(candidates.size()));
      continue;
    }
    Meaning::Draws draws = instruction.kind->meaning.draws;
    if (draws == Meaning::Draws::Place) {
      total += std::log10(4.0);  // the usual number of places; the true one is known at replay only
      continue;
    }
    double extent = 1;
    for (int i = 0; i < instruction.decision.count; ++i) extent *= static_cast<double>(instruction.decision.values[i]);
    int n = instruction.decision.count;
    if (draws == Meaning::Draws::Factors) {
      total += (n - 1) * std::log10(std::max(1.0, extent));  // each inner factor up to the extent
    } else {
      for (const PrimePower& power : factorize(static_cast<i64>(extent))) {
        for (int i = 1; i < n; ++i)
          total += std::log10((power.exponent + i) / static_cast<double>(i));  // stars and bars
      }
    }
  }
  return total;
}

}  // namespace tw
