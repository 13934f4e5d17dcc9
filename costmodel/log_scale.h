// The scale of counts in features: powers of two.
#pragma once
#include <algorithm>
#include <cmath>

namespace tw {

// log2(|value| + 1); finite for every value.
inline float slog(double value) { return std::log2(static_cast<float>(std::min(std::fabs(value), 1e30)) + 1.0f); }

}  // namespace tw
