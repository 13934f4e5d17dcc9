// BoundedSample keeps a bounded number of measured things: the fastest, and a uniform sample of the others. The sample
// is those with the smallest hashes, so it does not depend on the order in which they were added. Used for what cost
// models learn from, for the parents of the search, and for the records of earlier runs, whose traces are read for
// these only.
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "dsl/ir/compare.h"

namespace tw {

// How many are kept.
struct SampleLimits {
  std::size_t fastest = SIZE_MAX, others = SIZE_MAX;
};

template <class T>
class BoundedSample {
 public:
  struct Entry {
    double seconds;  // infinity = failed
    Hash128 hash;
    T value;
  };

  explicit BoundedSample(SampleLimits limits = {}) : limits_(limits) {}

  void add(double seconds, const Hash128& hash, T value) {
    i64 order = next_++;
    entries_.emplace(order, Entry{seconds, hash, std::move(value)});
    fastest_.insert({seconds, order});
    if (fastest_.size() <= limits_.fastest) return;
    auto slowest = std::prev(fastest_.end());
    others_.insert({entries_.at(slowest->second).hash.low, slowest->second});
    fastest_.erase(slowest);
    if (others_.size() <= limits_.others) return;
    auto largest = std::prev(others_.end());
    entries_.erase(largest->second);
    others_.erase(largest);
  }

  std::size_t size() const { return entries_.size(); }

  // In the order in which they were added.
  template <class Visit>
  void each(Visit&& visit) const {
    for (const auto& [order, entry] : entries_) visit(entry);
  }

  // At most `most`, the fastest first, of equal ones the older first.
  std::vector<const Entry*> fastest(std::size_t most) const {
    std::vector<std::pair<double, i64>> rest;
    if (most > fastest_.size()) {
      for (const auto& [hash, order] : others_) rest.push_back({entries_.at(order).seconds, order});
      std::sort(rest.begin(), rest.end());
    }
    std::vector<const Entry*> found;
    auto take = [&](const auto& list) {
      for (const auto& [seconds, order] : list) {
        if (found.size() < most) found.push_back(&entries_.at(order));
      }
    };
    take(fastest_);
    take(rest);
    return found;
  }

 private:
  SampleLimits limits_;
  i64 next_ = 0;
  std::map<i64, Entry> entries_;              // by their order
  std::set<std::pair<double, i64>> fastest_;  // by seconds
  std::set<std::pair<u64, i64>> others_;      // by hash
};

}  // namespace tw
