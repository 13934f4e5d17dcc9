#include "sampler/models/memory_plan.h"

#include <algorithm>
#include <compare>
#include <numeric>

#include "dsl/base/rng.h"

namespace tw {
namespace {

// Tries of all together take about a second at most: a try takes a time with the square of the values.
constexpr double kMostWork = 1e8, kMostTries = 3000;

i64 aligned(i64 bytes, i64 alignment) { return (bytes + alignment - 1) / alignment * alignment; }

StoragePlan in_order(const std::vector<StorageNeed>& needs, const std::vector<std::size_t>& order, i64 alignment) {
  std::vector<StorageNeed> ordered;
  for (std::size_t i : order) ordered.push_back(needs[i]);
  StoragePlan plan = first_fit(ordered, alignment), out{std::vector<i64>(needs.size()), plan.bytes};
  for (std::size_t n = 0; n < order.size(); ++n) out.offsets[order[n]] = plan.offsets[n];
  return out;
}

// What a plan takes, and how many values reach beyond the least: where a network repeats its layers, each of them has
// to be mended before the whole gets smaller.
struct Cost {
  i64 bytes, beyond;
  auto operator<=>(const Cost&) const = default;
};
Cost cost_of(const StoragePlan& plan, const std::vector<StorageNeed>& needs, i64 least) {
  Cost cost{plan.bytes, 0};
  for (std::size_t i = 0; i < needs.size(); ++i) cost.beyond += plan.offsets[i] + needs[i].bytes > least;
  return cost;
}

}  // namespace

i64 least_bytes(const std::vector<StorageNeed>& needs, i64 alignment) {
  i64 least = 0;
  // What is needed together is so where one of it begins.
  for (const StorageNeed& from : needs) {
    i64 at_once = 0, now = from.lifetime.first;
    for (const StorageNeed& need : needs) {
      if (need.lifetime.meets({now, now})) at_once += aligned(need.bytes, alignment);
    }
    least = std::max(least, at_once);
  }
  return least;
}

StoragePlan plan_memory(const std::vector<StorageNeed>& needs, i64 alignment) {
  std::vector<std::size_t> order(needs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return needs[i].bytes; });
  StoragePlan best = in_order(needs, order, alignment);
  i64 least = least_bytes(needs, alignment), count = std::ssize(needs);
  Cost cost = cost_of(best, needs, least);
  double tries = std::min(kMostTries, kMostWork / static_cast<double>(count * count + 1));
  Rng rng(1);
  for (int i = 0; i < static_cast<int>(tries) && best.bytes > least; ++i) {
    std::vector<std::size_t> other = order;
    std::size_t from = static_cast<std::size_t>(rng.below(count)), to = static_cast<std::size_t>(rng.below(count));
    std::rotate(other.begin() + static_cast<std::ptrdiff_t>(std::min(from, to)),
                other.begin() + static_cast<std::ptrdiff_t>(std::max(from, to)),
                other.begin() + static_cast<std::ptrdiff_t>(std::max(from, to)) + 1);
    StoragePlan plan = in_order(needs, other, alignment);
    Cost own = cost_of(plan, needs, least);
    if (own > cost) continue;
    cost = own;
    best = std::move(plan);
    order = std::move(other);
  }
  return best;
}

std::vector<std::size_t> places_handed_on(const std::vector<StorageNeed>& needs,
                                          const std::vector<Successor>& successors) {
  std::vector<std::size_t> first(needs.size());
  std::iota(first.begin(), first.end(), 0);
  std::vector<bool> is_taken(needs.size());
  auto is_free = [&](const Successor& pair) {
    const StorageNeed &operand = needs[pair.operand], &result = needs[pair.result];
    return !is_taken[pair.operand] && operand.lifetime.last == result.lifetime.first && operand.bytes == result.bytes;
  };
  auto begin_of = [&](const Successor& pair) { return needs[first[pair.operand]].lifetime.first; };
  for (std::size_t i = 0; i < successors.size(); ++i) {
    const std::size_t result = successors[i].result;
    const Successor* chosen = nullptr;
    for (std::size_t j = i; j < successors.size() && successors[j].result == result; ++j) {
      const Successor& pair = successors[j];
      if (is_free(pair) && (!chosen || begin_of(pair) < begin_of(*chosen))) chosen = &pair;
    }
    if (!chosen || first[result] != result) continue;
    is_taken[chosen->operand] = true;
    first[result] = first[chosen->operand];
  }
  return first;
}

ValuePlaces place_values(const std::vector<StorageNeed>& needs, const std::vector<Successor>& successors,
                         i64 alignment) {
  std::vector<std::size_t> first = places_handed_on(needs, successors), index_of(needs.size());
  std::vector<StorageNeed> joined;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    if (first[i] == i) index_of[i] = joined.size(), joined.push_back(needs[i]);
  }
  for (std::size_t i = 0; i < needs.size(); ++i) {
    index_of[i] = index_of[first[i]];
    Lifetime& whole = joined[index_of[i]].lifetime;
    whole.last = std::max(whole.last, needs[i].lifetime.last);
  }
  StoragePlan plan = plan_memory(joined, alignment);
  ValuePlaces out{{{}, plan.bytes}, least_bytes(joined, alignment)};
  if (plan.bytes > out.least) {  // a place that is kept for long may be in the way
    StoragePlan apart = plan_memory(needs, alignment);
    if (apart.bytes < plan.bytes) return {std::move(apart), out.least};
  }
  for (std::size_t index : index_of) out.storage.offsets.push_back(plan.offsets[index]);
  return out;
}

}  // namespace tw
