// Quantiles of measured times and ratios. A header alone, because workers do not link the library.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

namespace tw {

// The value below which the part `part` (0 to 1) of the values lies, between two of them in proportion; 0 where there
// are none. Values may be infinite.
inline double quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  double at = part * static_cast<double>(values.size() - 1);
  auto low = static_cast<std::size_t>(at);
  std::size_t high = std::min(low + 1, values.size() - 1);
  double rest = at - static_cast<double>(low);
  return rest == 0 || values[low] == values[high] ? values[low] : values[low] + rest * (values[high] - values[low]);
}
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace tw
