#include "sampler/draw/mutator.h"

#include <string_view>

namespace tw {
namespace {

bool mentions(const Arg& arg, u32 first, u32 count) {
  if (arg.tag == Arg::Tag::Value) return arg.integer >= first && arg.integer < first + count;
  for (const Arg& item : arg.items) {
    if (mentions(item, first, count)) return true;
  }
  return false;
}

}  // namespace

std::vector<SampleSite> samples_that_draw(const Trace& trace, Meaning::Draws what) {
  std::vector<SampleSite> sites;
  std::size_t sample = 0;
  for (const Instruction& instruction : trace.instructions()) {
    if (!instruction.kind->samples) continue;
    if (instruction.kind->meaning.draws == what) sites.push_back({sample, &instruction});
    ++sample;
  }
  return sites;
}

std::vector<SampleSite> categorical_feeding(const Trace& trace, bool (*is_meant)(const Meaning&)) {
  std::vector<SampleSite> sites;
  for (const SampleSite& site : samples_that_draw(trace, Meaning::Draws::OneOf)) {
    bool feeds = false;
    for (const Instruction& user : trace.instructions()) {
      if (!is_meant(user.kind->meaning)) continue;
      for (const Arg& arg : user.arguments)
        feeds |= mentions(arg, site.instruction->first_result, site.instruction->results);
    }
    if (feeds) sites.push_back(site);
  }
  return sites;
}

const std::vector<Mutator>& mutators() {
  static const std::vector<Mutator> table = {
      {"mutate_tile_size", 0.5, mutate_tile_size},
      {"mutate_categorical", 0.4, mutate_categorical},
      {"mutate_compute_location", 0.05, mutate_compute_location},
      {"mutate_permutation", 0.05, mutate_permutation},
      {"mutate_unroll", 0.03, mutate_unroll},
      {"mutate_parallel", 0.02, mutate_parallel},
  };
  return table;
}

bool mutate(const Trace& trace, const JointPrior& prior, std::vector<Decision>& decisions, Rng& rng) {
  std::vector<const Mutator*> open;
  for (const Mutator& mutator : mutators()) open.push_back(&mutator);
  while (!open.empty()) {
    double total = 0;
    for (const Mutator* mutator : open) total += mutator->weight;
    double at = rng.uniform() * total;
    std::size_t chosen = 0;
    while (chosen + 1 < open.size() && (at -= open[chosen]->weight) >= 0) ++chosen;
    std::vector<Decision> before = decisions;
    if (open[chosen]->mutate(trace, prior, decisions, rng) && prior.fit(decisions) && decisions != before) return true;
    decisions = std::move(before);
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  return false;
}

bool change_sample(const JointPrior& prior, std::size_t sample, std::vector<Decision>& decisions, Rng& rng) {
  if (!prior.candidates(sample).empty()) return prior.redraw(sample, decisions, rng);
  decisions[sample] = Decision{};
  return true;
}

}  // namespace tw
