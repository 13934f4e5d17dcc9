#include "bench/experiments/curves.h"

#include <algorithm>
#include <cmath>

#include "dsl/base/quantile.h"

namespace tw::bench {

double best_after(const std::vector<double>& seconds, std::size_t n) {
  auto end = seconds.begin() + static_cast<std::ptrdiff_t>(std::min(n, seconds.size()));
  return end == seconds.begin() ? kNever : *std::min_element(seconds.begin(), end);
}

double trials_to(const std::vector<double>& seconds, double goal) {
  if (!std::isfinite(goal)) return kNever;
  auto found = std::find_if(seconds.begin(), seconds.end(), [&](double each) { return each <= goal; });
  return found == seconds.end() ? kNever : static_cast<double>(found - seconds.begin() + 1);
}

Spread spread(const std::vector<double>& values) {
  if (values.empty()) return {};
  auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {median(values), *least, *most};
}

}  // namespace tw::bench
