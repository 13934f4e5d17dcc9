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

// Values, by index: a step reads `operand` and makes `result`, and its kernel allows both to have the same memory.
struct Successor {
  std::size_t operand = 0, result = 0;
};
// For each value the first one of those that follow each other in its place. A result gets the place of an operand that
// nobody needs behind this step, if they have as many bytes; of several operands that whose place has been in use for
// longest, as a residual's: it stays where it is through a network. `successors`: in the order of the steps, those of a
// result together.
std::vector<std::size_t> places_handed_on(const std::vector<StorageNeed>& needs,
                                          const std::vector<Successor>& successors);

struct ValuePlaces {
  StoragePlan storage;  // an offset for each value
  i64 least = 0;        // the most that is needed at one time, an operand and what is written over it counted once
};
// Results are written over operands, unless separate places need less memory.
ValuePlaces place_values(const std::vector<StorageNeed>& needs, const std::vector<Successor>& successors,
                         i64 alignment);

}  // namespace tw
