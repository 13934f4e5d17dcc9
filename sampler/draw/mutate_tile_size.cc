// Moves a factor between two tiles of a loop; of a tile that need not divide, also grows or shrinks one by a little.
#include <algorithm>

#include "sampler/draw/mutator.h"

namespace tw {
namespace {

std::vector<i64> divisors_above_one(i64 n) {
  std::vector<i64> divisors;
  for (i64 d = 2; d <= n; ++d) {
    if (n % d == 0) divisors.push_back(d);
  }
  return divisors;
}

// Divides tile x by a divisor above 1 and multiplies tile y with it (MetaSchedule). The product stays the same.
bool move_factor(Decision& tile, i64 max_innermost, Rng& rng) {
  for (int tries = 0; tries < 16; ++tries) {
    int x = static_cast<int>(rng.below(tile.count)), y = static_cast<int>(rng.below(tile.count - 1));
    if (y >= x) ++y;
    std::vector<i64> divisors = divisors_above_one(tile.values[x]);
    if (y == tile.count - 1 && max_innermost > 0) {
      std::erase_if(divisors, [&](i64 d) { return tile.values[y] * d > max_innermost; });
    }
    if (divisors.empty()) continue;
    i64 divisor = divisors[rng.below(static_cast<i64>(divisors.size()))];
    tile.values[x] /= divisor;
    tile.values[y] *= divisor;
    return true;
  }
  return false;
}

// Any inner factor may change; the outermost becomes what is left.
bool change_one(Decision& tile, Rng& rng) {
  int x = 1 + static_cast<int>(rng.below(tile.count - 1));
  i64 old = tile.values[x];
  const i64 proposals[] = {old * 2, (old + 1) / 2, old + 1, old - 1, old * 4, 1, old * tile.values[0]};
  i64 changed = std::max<i64>(1, proposals[rng.below(7)]);
  tile.values[x] = changed;
  return changed != old;
}

// The arguments of sample_partitioned_tile; open ones are not known here, and replay adapts what does not fit.
bool keeps_inner_part(const Instruction& instruction, const Decision& tile) {
  Arg position = instruction.arguments[2], factor = instruction.arguments[3];
  if (position.tag != Arg::Tag::Int || factor.tag != Arg::Tag::Int) return true;
  i64 inner = 1;
  for (i64 i = position.integer; i < tile.count; ++i) inner *= tile.values[i];
  return inner % factor.integer == 0;
}

bool move_factor_of_partitioned(const Instruction& instruction, Decision& tile, Rng& rng) {
  Decision before = tile;
  if (move_factor(tile, 0, rng) && keeps_inner_part(instruction, tile)) return true;
  tile = before;
  return false;
}

}  // namespace

bool mutate_tile_size(const Trace& trace, const JointPrior& prior, std::vector<Decision>& decisions, Rng& rng) {
  std::vector<SampleSite> sites = samples_that_draw(trace, Meaning::Draws::Divisors);
  std::size_t perfect = sites.size();
  for (const SampleSite& site : samples_that_draw(trace, Meaning::Draws::Factors)) sites.push_back(site);
  std::size_t unpartitioned = sites.size();
  for (const SampleSite& site : samples_that_draw(trace, Meaning::Draws::PartedDivisors)) sites.push_back(site);
  for (int tries = 0; tries < 8 && !sites.empty(); ++tries) {
    std::size_t chosen = static_cast<std::size_t>(rng.below(static_cast<i64>(sites.size())));
    Decision& tile = decisions[sites[chosen].sample];
    if (tile.count < 2) continue;
    if (chosen >= unpartitioned) {
      if (move_factor_of_partitioned(*sites[chosen].instruction, tile, rng)) return true;
      continue;
    }
    i64 max_innermost = sites[chosen].instruction->arguments[2].integer;
    bool divides = chosen < perfect;
    std::vector<Decision> before = decisions;
    bool has_changed = divides || rng.below(2) == 0 ? move_factor(tile, max_innermost, rng) : change_one(tile, rng);
    if (has_changed && prior.fit(decisions) && decisions != before) return true;
    decisions = std::move(before);
  }
  return false;
}

}  // namespace tw
