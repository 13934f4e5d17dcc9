// What the runs of an experiment say: the best time after each trial, by arm.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace tw::bench {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

// Of runs with several seeds, seconds of each trial in order.
using Runs = std::vector<std::vector<double>>;

// The smallest of the first n; kNever if all of them failed.
double best_after(const std::vector<double>& seconds, std::size_t n);
// How many trials until a time of `goal` or less; kNever if there is none.
double trials_to(const std::vector<double>& seconds, double goal);

// Of an odd number of values the middle one, of an even number the larger of the two; so that it is one of them.
double median(std::vector<double> values);
struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread(const std::vector<double>& values);

}  // namespace tw::bench
