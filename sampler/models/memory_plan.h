// Places of a model's values in one piece of memory.
#pragma once
#include "dsl/passes/lifetimes.h"

namespace tw {

// The most that is needed at one time, with everything aligned: no plan does with less.
i64 least_bytes(const std::vector<StorageNeed>& needs, i64 alignment);

// The largest first, each at the lowest place that is free while it is needed (greedy by size, Pisarchyk and Lee, MLSys
// 2020). Where that takes more than the least, the order is changed at random again and again, and what is not worse
// stays.
StoragePlan plan_memory(const std::vector<StorageNeed>& needs, i64 alignment);

}  // namespace tw
