#include "dsl/analysis/precision.h"

#include <algorithm>
#include <cmath>

namespace tw {

i64 precision_of(const Tolerance& tolerance, const Block* block) {
  double error = std::min(tolerance.absolute, tolerance.relative), products = 1;
  if (error <= 0) return kFullPrecision;
  for (const IterVar& iter : block->iters) products *= iter.kind == IterKind::R ? static_cast<double>(iter.extent) : 1.0;
  return std::clamp(static_cast<i64>(std::floor(std::log2(products) / 2 - std::log2(error))), i64{0}, kFullPrecision);
}

}  // namespace tw
