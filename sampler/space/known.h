// What the search of one task remembers between rounds, so that a repeated candidate costs a look-up and no replay.
// Used by evolution. It never changes what is proposed, only how long that takes.
#pragma once
#include <unordered_map>
#include <unordered_set>
#include <utility>
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

// Its size is bounded: when it is full, the older half is forgotten.
class KnownCandidates {
 public:
  // What was built of these decisions (decision_key); null if nothing is known.
  const Built* find(u64 decisions) const {
    for (const Half* half : {&latest_, &earlier_}) {
      if (auto at = half->built.find(decisions); at != half->built.end()) return &at->second;
    }
    return nullptr;
  }
  void add(u64 decisions, const Built& built) {
    if (latest_.built.emplace(decisions, built).second) grow(kBuiltBytes);
  }
  // True if no such program is remembered. `draft`: its time by the draft model.
  bool add_program(const Hash128& program, double draft) {
    if (earlier_.drafts.count(program) > 0 || !latest_.drafts.emplace(program, draft).second) return false;
    grow(kProgramBytes);
    return true;
  }
  // Null if the program is not remembered.
  const double* draft(const Hash128& program) const {
    for (const Half* half : {&latest_, &earlier_}) {
      if (auto at = half->drafts.find(program); at != half->drafts.end()) return &at->second;
    }
    return nullptr;
  }

  // Features of a program, or null if they were not kept. Valid until something is added.
  const std::vector<float>* features(const Hash128& program) const {
    for (const Half* half : {&latest_, &earlier_}) {
      if (auto at = half->features.find(program); at != half->features.end()) return &at->second;
    }
    return nullptr;
  }
  void keep_features(const Hash128& program, std::vector<float> rows) {
    std::size_t bytes = rows.size() * sizeof(float) + kRowsBytes;
    if (latest_.features.emplace(program, std::move(rows)).second) grow(bytes);
  }

  std::size_t bytes() const { return latest_.bytes + earlier_.bytes; }
  void forget() { latest_ = earlier_ = {}; }
  std::size_t room = std::size_t{64} << 20;  // bytes

 private:
  struct Half {
    std::unordered_map<u64, Built> built;
    std::unordered_map<Hash128, double, HashOfHash> drafts;  // of programs
    std::unordered_map<Hash128, std::vector<float>, HashOfHash> features;
    std::size_t bytes = 0;
  };
  // About how many bytes an entry takes, with its place in the table.
  static constexpr std::size_t kBuiltBytes = 64, kProgramBytes = 56, kRowsBytes = 96;

  void grow(std::size_t bytes) {
    latest_.bytes += bytes;
    if (latest_.bytes > room / 2) earlier_ = std::exchange(latest_, {});
  }

  Half latest_, earlier_;
};

}  // namespace tw
