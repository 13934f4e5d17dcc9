// What the search of one task remembers between rounds, so that a repeated candidate costs a look-up and no replay.
// Used by evolution. It never changes what is proposed, only how long that takes.
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dsl/ir/compare.h"

namespace tw {

struct HashOfHash {
  std::size_t operator()(const Hash128& hash) const { return hash.low; }
};
using HashSet = std::unordered_set<Hash128, HashOfHash>;

// What a sketch with complete decisions gave.
struct Built {
  Hash128 program;
  double draft = 0;  // seconds, by the draft model; infinity = rejected
};

class KnownCandidates {
 public:
  // Null: these decisions (see decision_key) were not built yet.
  const Built* find(u64 decisions) const {
    auto at = built_.find(decisions);
    return at == built_.end() ? nullptr : &at->second;
  }
  void add(u64 decisions, const Built& built) { built_.emplace(decisions, built); }
  // True if no such program was met before.
  bool add_program(const Hash128& program) { return programs_.insert(program).second; }

  // Features of a program, or null if they were not kept.
  const std::vector<float>* features(const Hash128& program) const {
    auto at = features_.find(program);
    return at == features_.end() ? nullptr : &at->second;
  }
  // Forgets all others when there is no more room.
  void keep_features(const Hash128& program, std::vector<float> rows) {
    std::size_t bytes = rows.size() * sizeof(float) + 96;
    if (feature_bytes_ + bytes > feature_room) features_.clear(), feature_bytes_ = 0;
    if (features_.emplace(program, std::move(rows)).second) feature_bytes_ += bytes;
  }
  std::size_t feature_room = std::size_t{64} << 20;  // bytes

 private:
  std::unordered_map<u64, Built> built_;
  HashSet programs_;
  std::unordered_map<Hash128, std::vector<float>, HashOfHash> features_;
  std::size_t feature_bytes_ = 0;
};

}  // namespace tw
