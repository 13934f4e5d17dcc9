// What the runs of an experiment say: the best time after each trial, by arm.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace tw::bench {

inline constexpr double kNever = std::numeric_limits<double>::infinity();
inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // what is said of no values

// `seconds` are those of a run's trials, in order; kNever for one that failed.
// The smallest of the first n; kNever if all of them failed.
double best_after(const std::vector<double>& seconds, std::size_t n);
// How many trials until a time of `goal` or less; kNever if there is none, or no goal because everything failed.
double trials_to(const std::vector<double>& seconds, double goal);

struct Spread {
  double median = kNone, least = kNone, most = kNone;
};
Spread spread(const std::vector<double>& values);

}  // namespace tw::bench
