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

}  // namespace tw
