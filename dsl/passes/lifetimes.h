// Lifetimes: from when to when something is needed, and places in one memory for things that are not needed at the same
// time. For the passes that decide where buffers are: place_buffers (scratch memory of processors), split_kernels (of
// devices), device_scopes and share_storage (shared memory of work-groups). It knows nothing of scopes and limits.
#pragma once
#include <map>
#include <vector>

#include "dsl/ir/program.h"

namespace tw {

// From step `first` to step `last`, both included; steps are numbered in the order in which they run.
struct Lifetime {
  i64 first = 0, last = 0;
  bool meets(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

// Lifetimes of buffers with an Alloc in a nest; stores are the steps. What is touched in a loop inside of its Alloc is
// needed as long as the loop runs: iterations may hand elements on.
std::map<const Buffer*, Lifetime> lifetimes_of(const Stmt* nest);

struct StorageNeed {
  Lifetime lifetime;
  i64 bytes;
};
struct StoragePlan {
  std::vector<i64> offsets;  // one for each need, multiples of the alignment
  i64 bytes = 0;             // of all
};
// First fit, in the order given: the lowest offset at which nothing lies whose lifetime meets.
StoragePlan first_fit(const std::vector<StorageNeed>& needs, i64 alignment);

}  // namespace tw
