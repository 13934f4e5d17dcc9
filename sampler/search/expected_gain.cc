#include "sampler/search/expected_gain.h"

#include <algorithm>
#include <cmath>

namespace tw {

double expected_gain(const std::vector<double>& seconds) {
  constexpr std::size_t kBatch = 32, kWindow = 2 * kBatch, kBefore = 16, kFastest = 5;
  if (seconds.size() < kBefore + kWindow) return 1;
  auto window = seconds.end() - kWindow;
  double before = *std::min_element(seconds.begin(), window),
         now = std::min(before, *std::min_element(window, seconds.end()));
  if (!std::isfinite(now)) return 1;
  double trend = std::isfinite(before) ? (before - now) / before / 2 : 1;
  std::vector<double> fastest(window, seconds.end());
  fastest.push_back(before);
  std::partial_sort(fastest.begin(), fastest.begin() + kFastest, fastest.end());
  double distance = (fastest[kFastest - 1] - fastest[0]) / (kFastest - 1) / now;
  double luck = distance * kBatch / (kWindow + kBatch);
  return std::max(trend, std::isfinite(luck) ? luck : 1);
}

}  // namespace tw
