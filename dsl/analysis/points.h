// How many points blocks have: the product of the extents of their iters. Used for flops, for bounds on time, and to
// tell what is small enough to be interpreted or emulated. A double: large workloads have more points than an i64
// holds.
#pragma once
#include "dsl/ir/program.h"
#include "dsl/ir/walk.h"

namespace tw {

inline double points_of(const Block* block) {
  double points = 1;
  for (const IterVar& iter : block->iters) points *= static_cast<double>(iter.extent);
  return points;
}
// Of all blocks together.
inline double points_of(const Program& program) {
  double sum = 0;
  for_each<Block>(program.body, [&](const Block* block) { sum += points_of(block); });
  return sum;
}

}  // namespace tw
